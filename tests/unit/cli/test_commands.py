"""Commands without an agent: usage, errors, completion, check, doctor, charts."""

import asyncio
import json
import os
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner

from pykubelet.base.errors import Invalid, NotFound, Transient
from pykubelet.cli import app, commands
from pykubelet.cli.app import cli
from pykubelet.cli.arguments.kinds import _image_rows
from pykubelet.cli.arguments.lookup import FoundPod, find_container
from pykubelet.cli.client.local_api import LocalApi
from pykubelet.cli.client.streams import readable
from pykubelet.cli.commands.node.doctor import (
    FindingLevel,
    _configuration,
    _quarantine,
    _trash,
    machine_findings,
    program_findings,
)
from pykubelet.cli.commands.pods.logs import span_seconds
from pykubelet.cli.commands.pods.timeline import chart
from pykubelet.linux.selinux import ContainerLabels

GOOD = """\
apiVersion: v1
kind: Pod
metadata: {name: good}
spec:
  containers: [{name: a, image: i}]
"""


def test_every_command_has_help() -> None:
    runner = CliRunner()
    listing = runner.invoke(cli, ["--help"])
    assert listing.exit_code == 0
    for name in app._COMMANDS:
        assert f"  {name} " in listing.output
        assert runner.invoke(cli, [name, "--help"]).exit_code == 0


def test_every_module_of_a_command_is_in_the_table() -> None:
    top = Path(commands.__file__).parent
    found = [path.relative_to(top).with_suffix("") for path in top.rglob("*.py") if path.stem != "__init__"]
    modules = {".".join(path.parts) for path in found}
    assert {module for module, _ in app._COMMANDS.values()} == modules


def test_missing_agent_error_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(Transient, match="pykubelet run"):
        LocalApi(tmp_path / "none.sock").get("/api/v1/pods")


def test_check_accepts_valid_and_reports_invalid_manifests(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(GOOD)
    bad.write_text(GOOD.replace("image:", "imagee:").replace("good", "bad"))
    runner = CliRunner()
    fine = runner.invoke(cli, ["check", str(good)])
    assert (fine.exit_code, "Pod default/good" in fine.output) == (0, True)
    wrong = runner.invoke(cli, ["check", str(tmp_path)])
    assert wrong.exit_code == 1
    assert "imagee: unknown field; did you mean image?" in wrong.output
    assert f"{bad}:5:" in wrong.output


def test_check_reports_objects_defined_twice(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(GOOD)
    result = CliRunner().invoke(cli, ["check", str(tmp_path)])
    assert result.exit_code == 1
    assert f"is already given in {tmp_path / 'a.yaml'}:1, which is used" in result.output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_name_the_program(shell: str) -> None:
    result = CliRunner().invoke(cli, ["completion", shell])
    assert result.exit_code == 0
    assert "_PYKUBELET_COMPLETE" in result.output


def test_version_without_an_agent_says_not_running(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["--socket", str(tmp_path / "s"), "version"])
    assert result.exit_code == 0
    assert "not running" in result.output


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("10m", 600), ("1h30m", 5400), ("2d", 172800)])
def test_span_seconds_adds_up_the_units_of_the_text(text: str, seconds: int) -> None:
    assert span_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "x", "1h-5m", "1.5h"])
def test_invalid_span_is_rejected(text: str) -> None:
    with pytest.raises(Invalid, match="30s, 10m"):
        span_seconds(text)


def test_find_container_names_the_existing_ones() -> None:
    spec = {"initContainers": [{"name": "i"}], "containers": [{"name": "a"}]}
    pod = FoundPod({"spec": spec}, "default", "p")
    assert find_container(pod, None) == "a"
    assert find_container(pod, "i") == "i"
    with pytest.raises(NotFound, match="it has: i, a"):
        find_container(pod, "x")


def test_timeline_chart_uses_one_scale() -> None:
    steps = [
        {"step": "seen", "container": "", "start_s": 0.0, "duration_s": 0.0, "error": ""},
        {"step": "sandbox", "container": "", "start_s": 0.5, "duration_s": 0.5, "error": ""},
        {"step": "start", "container": "web", "start_s": 1.0, "duration_s": 1.0, "error": "refused"},
    ]
    lines = chart("demo", {"steps": steps}).splitlines()
    assert lines[0] == "demo: start, 2.00 s from the first to the last step"
    assert lines[2].count("█") == 12
    assert lines[3].count("█") == 24
    assert lines[3].index("█") == lines[2].rindex("█") + 1
    assert lines[3].endswith("1.00 s  refused")
    assert "no start recorded" in chart("demo", {"steps": []})


def test_doctor_reports_missing_programs_with_remedies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykubelet.cli.commands.node.doctor._installed", lambda program: False)
    monkeypatch.setattr("pykubelet.cli.commands.node.doctor._CNI_DIRECTORIES", (Path("/nonexistent"),))
    findings = {finding.subject: finding for finding in program_findings()}
    assert findings["OCI runtime"].verdict is FindingLevel.FAILED
    assert findings["OCI runtime"].remedy == "apt-get install runc"
    assert findings["CNI plugins"].remedy == "apt-get install containernetworking-plugins"
    assert findings["iptables"].verdict is FindingLevel.WARNING


def test_doctor_prints_json(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("pykubelet.cli.commands.node.doctor._installed", lambda program: False)
    monkeypatch.setattr("pykubelet.cli.commands.node.doctor._runtime", lambda endpoint: [])
    arguments = ["--socket", str(tmp_path / "none"), "doctor"]
    done = CliRunner().invoke(cli, [*arguments, "-o", "json"])
    report = json.loads(done.output)
    found = {item["subject"]: item for item in report["items"]}
    assert done.exit_code == 1
    assert report["failed"] == sum(item["verdict"] == "failed" for item in report["items"]) >= 1
    assert report["warnings"] == sum(item["verdict"] == "warning" for item in report["items"]) >= 1
    assert found["OCI runtime"]["remedy"] == "apt-get install runc"
    assert found["OCI runtime"]["packages"] == ["runc"]
    done = CliRunner().invoke(cli, [*arguments, "-o", "json", "--fix"])
    assert done.exit_code == 2


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"problems": 1, "trees": "x"}', '"\\ud800"', "[" * 100_000])
def test_doctor_passes_over_what_another_runtime_says(text: str) -> None:
    assert [*_configuration(text), *_trash(text), *_quarantine(text)] == []


def test_doctor_names_refused_files_of_the_runtime_server() -> None:
    text = json.dumps({"file": "/c.toml", "error": "line 1", "problems": ["policy.toml: not toml"], "readAt": 1.5})
    texts = [(finding.verdict, finding.text) for finding in _configuration(text)]
    assert texts == [
        (FindingLevel.FAILED, "/c.toml is refused, the former version is in force: line 1"),
        (FindingLevel.FAILED, "policy.toml: not toml"),
    ]


def test_doctor_checks_user_kernel_and_cgroups() -> None:
    subjects = [finding.subject for finding in machine_findings()]
    assert subjects[:3] == ["user", "kernel", "cgroups"]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (ContainerLabels(), None),
        (
            ContainerLabels(process="u:r:container_t:s0", files="f"),
            (FindingLevel.OK, "containers run as u:r:container_t:s0"),
        ),
        (
            ContainerLabels(problem="the policy does not know x"),
            (
                FindingLevel.WARNING,
                "the policy does not know x; containers of pykubelet's own server are not confined by it",
            ),
        ),
    ],
)
def test_doctor_says_whether_selinux_confines_containers(
    monkeypatch: pytest.MonkeyPatch, labels: ContainerLabels, expected: tuple[FindingLevel, str] | None
) -> None:
    monkeypatch.setattr("pykubelet.linux.selinux.container_labels", lambda: labels)
    found = [(each.verdict, each.text) for each in machine_findings() if each.subject == "SELinux"]
    assert found == ([expected] if expected else [])


def test_zero_is_sent_as_a_query_value(tmp_path: Path) -> None:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()

        def address_string(self) -> str:
            return "unix"

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    class Server(HTTPServer):
        address_family = socket.AF_UNIX

        def server_bind(self) -> None:
            self.socket.bind(self.server_address)

    with Server(str(tmp_path / "agent.sock"), Handler) as server:  # type: ignore[arg-type]  # a unix socket's address
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        list(LocalApi(tmp_path / "agent.sock").lines("/log", tailLines=0, follow=None, previous=False, container=""))
        thread.join()
    assert asked == ["/log?tailLines=0"]


def test_an_image_has_a_row_for_each_name() -> None:
    image = {"id": "sha256:0123456789abcdef", "repoTags": ["a:1", "b:1"], "size": 1000}
    rows = [("a:1", "0123456789ab", "1kB"), ("b:1", "0123456789ab", "1kB")]
    assert _image_rows(image, False) == rows
    assert _image_rows({**image, "repoTags": []}, False) == [("<none>", "0123456789ab", "1kB")]


async def test_readable_waits_for_standard_input() -> None:
    """A blocking read would stop the event loop, and with it the output of earlier input."""
    reader, writer = os.pipe()
    try:
        for text in (b"one", b"two"):
            asyncio.get_running_loop().call_later(0.01, os.write, writer, text)
            async with asyncio.timeout(5):
                await readable(reader)
            await asyncio.sleep(0)
            assert os.read(reader, 10) == text
    finally:
        os.close(reader)
        os.close(writer)
