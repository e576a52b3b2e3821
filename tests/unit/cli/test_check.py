"""``pykubelet check``: sources, the agent's node, output formats, exit status."""

import json
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from click.testing import CliRunner, Result

from pykubelet.cli.app import cli
from pykubelet.kubelet.desired.check import Rule
from pykubelet.kubelet.types.reports.node_view import HostPortView, NodeView, ObjectView, PodView

GOOD = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n  containers:\n  - {name: a, image: i%s}\n"
PORT = ", ports: [{containerPort: 1, hostPort: 80}]"


class _Agent(socketserver.ThreadingUnixStreamServer):
    node: NodeView


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, _Agent)
        found = self.path == "/pykubelet/v1/node"
        body = msgspec.json.encode(self.server.node if found else {"message": "not found"})
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The manifest directory of the agent, with a pod that uses a host port."""
    path = tmp_path / "manifests"
    path.mkdir()
    (path / "web.yaml").write_text(GOOD % ("web", PORT))
    return path


@pytest.fixture
def agent(tmp_path: Path, directory: Path) -> Iterator[Path]:
    """The socket of an agent of one node."""
    path = tmp_path / "agent.sock"
    with _Agent(str(path), _Handler) as server:
        server.node = NodeView(
            name="n1",
            manifests=str(directory),
            labels={"disk": "ssd"},
            allocatable={"cpu": "2", "memory": "1Gi"},
            objects=(ObjectView(kind="ConfigMap", namespace="default", name="m", source=str(directory / "m.yaml")),),
            pods=(
                PodView(
                    namespace="default",
                    name="web",
                    source=str(directory / "web.yaml"),
                    host_ports=(HostPortView(port=80),),
                ),
            ),
        )
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield path
        finally:
            server.shutdown()
            thread.join()


def check(socket: Path, *arguments: object, text: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["--socket", str(socket), "check", *map(str, arguments)], input=text)


def test_files_are_checked_against_the_running_agents_node(agent: Path, directory: Path, tmp_path: Path) -> None:
    file = tmp_path / "new.yaml"
    file.write_text(GOOD % ("new", PORT))
    done = check(agent, file)
    assert done.exit_code == 1
    (line,) = done.stdout.splitlines()
    assert line.startswith(f"{file}:6:52: error: Pod default/new: spec.containers[0].ports[0].hostPort: 80/TCP is ")
    assert f"taken by Pod default/web ({directory / 'web.yaml'}:6)" in line
    assert f"checked against node 'n1' of the agent at {agent}" in done.stderr
    assert "1 file checked, 1 error, 0 warnings" in done.stderr


def test_node_is_left_out_on_request(agent: Path, tmp_path: Path) -> None:
    file = tmp_path / "new.yaml"
    file.write_text(GOOD % ("new", PORT))
    done = check(agent, "--no-node", file)
    assert done.exit_code == 0
    assert "checked against the size of this machine, not checked: node selectors, " in done.stderr


def test_missing_agent_is_said_in_one_line_and_an_error_with_node(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(GOOD % ("a", ", resources: {requests: {memory: 1Ei}}"))
    socket = tmp_path / "none.sock"
    done = check(socket, file)
    assert done.exit_code == 1
    assert "error: Pod default/a: spec.containers[0].resources.requests[memory]: requests 1Ei of memory" in done.stdout
    assert f"no agent responds at {socket} (No such file or directory): checked against the size of" in done.stderr
    wanted = check(socket, "--node", file)
    assert (wanted.exit_code, wanted.stdout) == (1, "")
    assert "no agent responds" in str(wanted.exception)


def test_agent_without_the_path_counts_as_missing(tmp_path: Path, agent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(GOOD % ("a", ""))
    monkeypatch.setattr("pykubelet.cli.changes.check_sources._PATH", "/pykubelet/v1/nothing")
    done = check(agent, file)
    assert done.exit_code == 0
    assert "not found: checked against the size of this machine" in done.stderr


def test_standard_input_is_read(agent: Path) -> None:
    done = check(agent, "-", text=GOOD % ("a", "e"))
    assert done.exit_code == 0
    assert done.stdout.splitlines() == ["<stdin>: ok, Pod default/a", "1 file checked, 0 errors, 0 warnings"]
    done = check(agent, "-", text="kind: Pod\n")
    assert done.exit_code == 1
    assert done.stdout == "<stdin>:1:1: error: apiVersion: is required; write apiVersion: v1\n"
    assert check(agent, "-", text="").exit_code == 1
    sarif = json.loads(check(agent, "-o", "sarif", "-", text="kind: Pod\n").stdout)
    (location,) = sarif["runs"][0]["results"][0]["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "%3Cstdin%3E"


def test_whole_directory_of_the_agent_does_not_conflict_with_itself(agent: Path, directory: Path) -> None:
    done = check(agent, directory, directory / "web.yaml")
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        f"{directory}/web.yaml: ok, Pod default/web",
        "1 file checked, 0 errors, 0 warnings",
    ]
    (directory / "again.yaml").write_text(GOOD % ("web", ""))
    both = check(agent, directory)
    assert both.exit_code == 1
    assert f"web.yaml:3:12: error: Pod default/web: metadata.name: is already given in {directory}/again.yaml" in (
        both.stdout
    )
    one = check(agent, directory / "again.yaml")
    assert f"is already given in {directory}/web.yaml:1; rename" in one.stdout


def test_warnings_fail_only_with_strict(agent: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(GOOD % ("a", ", resources: {limits: {example.com/gpu: 1}}"))
    done = check(agent, file)
    assert (done.exit_code, ": warning: Pod default/a: " in done.stdout) == (0, True)
    assert check(agent, "--strict", file).exit_code == 1
    quiet = check(agent, "-q", file)
    assert (len(quiet.stdout.splitlines()), quiet.stderr) == (1, "")


def test_unreadable_paths_are_errors(agent: Path, tmp_path: Path) -> None:
    done = check(agent, tmp_path / "none.yaml")
    assert (done.exit_code, "none.yaml: error: the file does not exist" in done.stdout) == (1, True)
    done = check(agent, tmp_path / f"{'n' * 300}.yaml")
    assert (done.exit_code, "nnn.yaml: error: cannot be read: File name too long" in done.stdout) == (1, True)


@pytest.fixture
def mistakes(tmp_path: Path) -> tuple[Path, Path]:
    """Two files, with a finding that has a line and a related place, one with a line, and one without."""
    first, second = tmp_path / "a ü.yaml", tmp_path / "b.yaml"
    first.write_text(GOOD % ("a", PORT.replace("80", "81")) + "  nodeSelector: {disk: hdd}\n")
    second.write_text(GOOD % ("b", PORT.replace("80", "81")))
    return first, second


def test_json_has_all_parts_of_a_finding(agent: Path, mistakes: tuple[Path, Path], tmp_path: Path) -> None:
    first, second = mistakes
    done = check(agent, "-o", "json", *mistakes, tmp_path / "none.yaml")
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert found["files"] == [str(first), str(second), str(tmp_path / "none.yaml")]
    assert (found["node"], found["skipped"], found["errors"], found["warnings"]) == ("n1", [], 3, 0)
    port = found["findings"][1]
    assert port | {"message": "", "remedy": ""} == {
        "rule": "host-port",
        "severity": "error",
        "file": str(second),
        "line": 6,
        "column": 52,
        "object": "Pod default/b",
        "field": "spec.containers[0].ports[0].hostPort",
        "message": "",
        "remedy": "",
        "related": [{"file": str(first), "line": 6}],
    }
    assert port["message"]
    assert port["remedy"]
    assert [each["line"] for each in found["findings"]] == [7, 6, None]
    offline = json.loads(check(agent, "--no-node", "-o", "json", first).stdout)
    assert (offline["node"], bool(offline["skipped"])) == (None, True)


def test_sarif_follows_the_rules_of_its_schema(agent: Path, mistakes: tuple[Path, Path], tmp_path: Path) -> None:
    done = check(agent, "-o", "sarif", *mistakes, tmp_path / "none.yaml")
    assert done.exit_code == 1
    log = json.loads(done.stdout)
    _assert_sarif(log)
    (run,) = log["runs"]
    assert [(each["ruleId"], each["level"]) for each in run["results"]] == [
        ("node-selector", "error"),
        ("host-port", "error"),
        ("invalid-manifest", "error"),
    ]
    selector, port, unreadable = (each["locations"][0]["physicalLocation"] for each in run["results"])
    assert selector["artifactLocation"]["uri"] == f"file://{tmp_path}/a%20%C3%BC.yaml"
    assert selector["region"] == {"startLine": 7, "startColumn": 18}
    assert port["region"] == {"startLine": 6, "startColumn": 52}
    assert "region" not in unreadable
    related = run["results"][1]["relatedLocations"][0]["physicalLocation"]
    assert related == {"artifactLocation": selector["artifactLocation"], "region": {"startLine": 6}}


def test_sarif_without_findings_has_an_empty_list_and_relative_names(
    agent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a b.yaml").write_text(GOOD % ("a", ""))
    log = json.loads(check(agent, "-o", "sarif", "a b.yaml").stdout)
    _assert_sarif(log)
    assert log["runs"][0]["results"] == []
    (tmp_path / "a b.yaml").write_text("kind: Pod")
    (result,) = json.loads(check(agent, "-o", "sarif", "a b.yaml").stdout)["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "a%20b.yaml"}


def _assert_sarif(log: Any) -> None:
    """Check a log by the rules of the SARIF 2.1.0 schema and standard for the objects that it uses."""
    assert log.keys() == {"$schema", "version", "runs"}
    assert (log["version"], urlsplit(log["$schema"]).scheme) == ("2.1.0", "https")
    for run in log["runs"]:
        assert run.keys() <= {"tool", "results", "columnKind"}
        assert run["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")
        driver = run["tool"]["driver"]
        assert isinstance(driver["name"], str)
        rules = [rule["id"] for rule in driver["rules"]]
        assert rules == list(Rule)
        assert all(rule["shortDescription"]["text"] for rule in driver["rules"])
        for result in run["results"]:
            assert result["message"]["text"]
            assert result["level"] in ("none", "note", "warning", "error")
            assert rules[result["ruleIndex"]] == result["ruleId"]
            for location in (*result["locations"], *result.get("relatedLocations", [])):
                _assert_location(location)


def _assert_location(location: Any) -> None:
    physical = location["physicalLocation"]
    uri = physical["artifactLocation"]["uri"]
    assert uri.isascii()
    assert " " not in uri
    if "region" in physical:
        region = physical["region"]
        assert region["startLine"] >= 1
        assert region.get("startColumn", 1) >= 1
    for logical in location.get("logicalLocations", []):
        assert logical["fullyQualifiedName"]
