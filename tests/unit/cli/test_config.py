"""``config status`` for given answers of the local API."""

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from pykubelet.cli.app import cli
from pykubelet.cli.client.local_api import LocalApi
from pykubelet.cli.commands.node import config
from pykubelet.cli.plan.config_table import config_table


def field(name: str, in_force: object, configured: object, **fields: object) -> dict[str, object]:
    common = {"default": False, "onChange": "live", "state": "applied", "reason": "a component"}
    return {"field": name, "inForce": in_force, "configured": configured, **common, **fields}


ANSWER: dict[str, Any] = {
    "files": ["/etc/config.yaml"],
    "error": "",
    "restart": ["port"],
    "fields": [
        field("maxPods", 110, 110, default=True),
        field("port", 10250, 1, onChange="restart", state="needs restart", reason="sockets are opened at the start"),
        field("evictionHard", {"memory.available": "100Mi", "nodefs.available": "10%"}, {}),
        field("clusterDomain", "", "", onChange="restart", default=True),
        field("runOnce", False, True, onChange="none", state="no effect", reason="no code reads it"),
    ],
}


def run(monkeypatch: pytest.MonkeyPatch, answer: object, *words: str) -> Result:
    class FakeApi:
        def get(self, path: str) -> object:
            assert path == "/pykubelet/v1/config"
            return answer

    monkeypatch.setattr(config, "api_of", lambda _: FakeApi())
    return CliRunner().invoke(cli, ["config", "status", *words])


def test_table_has_values_states_and_what_a_change_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    found = run(monkeypatch, ANSWER)
    assert found.exit_code == 0
    lines = [[cell.strip() for cell in line.split("   ") if cell] for line in found.stdout.splitlines()]
    assert lines[0] == ["FIELD", "IN FORCE", "CONFIGURED", "STATE", "A CHANGE IS"]
    assert lines[1] == ["maxPods", "110", "applied", "applied live: a component"]
    assert lines[2][3:] == ["needs restart", "needs a restart: sockets are opened at the start"]
    assert lines[3][1] == '{"memory.available": "100Mi", "nodefs.available": "10%"}', "whole without a terminal"
    assert lines[4][1] == '""'
    assert lines[5][1:4] == ["false", "true", "no effect"]
    assert lines[6] == ["needs a restart of the agent: port"]


def test_changed_leaves_out_fields_that_are_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    found = run(monkeypatch, ANSWER, "--changed").stdout
    assert "maxPods" not in found and "port" in found and "runOnce" in found


def test_named_fields_are_shown_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    found = json.loads(run(monkeypatch, ANSWER, "port", "-o", "json").stdout)
    assert [each["field"] for each in found["fields"]] == ["port"]
    assert found["restart"] == ["port"]
    wrong = run(monkeypatch, ANSWER, "maxpods")
    assert "did you mean maxPods?" in str(wrong.exception)


def test_refused_files_make_the_command_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = {**ANSWER, "restart": [], "error": "/etc/config.yaml:3:1: port: wrong"}
    found = run(monkeypatch, refused)
    assert found.exit_code == 1
    assert "refused" in found.stderr and "/etc/config.yaml:3:1: port: wrong" in found.stderr
    assert json.loads(run(monkeypatch, refused, "-o", "json").stdout)["error"].endswith("wrong")


def test_nothing_pending_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, {**ANSWER, "restart": []}, "maxPods").stdout.endswith("\nnothing is pending\n")


def test_long_values_are_cut_on_a_terminal() -> None:
    (_, line) = config_table([field("evictionHard", {"a": "b" * 100}, {})], 130).splitlines()
    assert len(line) < 110 and "…" in line


@pytest.mark.parametrize("width", [40, 60, 80, 100])
@pytest.mark.parametrize("reasons", [False, True])
def test_table_fits_a_narrow_terminal(width: int, *, reasons: bool) -> None:
    fields = [
        field("f" * 41, ["long"] * 30, ["other"] * 30, onChange="restart", state="needs restart"),
        *ANSWER["fields"],
    ]
    lines = config_table(fields, width, reasons=reasons).splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0].split("  ")[0] == "FIELD" and lines[0].endswith("A CHANGE IS")
    start = lines[0].index("A CHANGE IS")
    assert {line[start:] for line in lines[1:] if line[0] != " "} == {"applied live", "needs a restart", "no effect"}
    assert ("sockets are opened at the start" in " ".join(lines)) == reasons


def test_narrow_table_has_the_configured_value_below_the_one_in_force() -> None:
    assert config_table(ANSWER["fields"], 70, reasons=False).splitlines() == [
        "FIELD           IN FORCE                               A CHANGE IS",
        "maxPods         110                                    applied live",
        "port            10250                                  needs a restart",
        "  configured: 1 (needs restart)",
        'evictionHard    {"memory.available": "100Mi", "node…   applied live',
        "  configured: {} (applied)",
        'clusterDomain   ""                                     needs a restart',
        "runOnce         false                                  no effect",
        "  configured: true (no effect)",
    ]


def test_fields_are_completed_with_what_a_change_needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def items(incomplete: str) -> list[tuple[str, str | None]]:
        root = click.Context(cli)
        root.params["socket"] = tmp_path / "agent.sock"
        context = click.Context(config.status, parent=root)
        return [(item.value, item.help) for item in config.status.params[0].shell_complete(context, incomplete)]

    assert items("") == [], "no agent"
    monkeypatch.setattr(LocalApi, "get", lambda self, path: {"/pykubelet/v1/config": ANSWER}[path])
    assert items("MAXP") == [("maxPods", "applied live: a component")]
    assert items("port") == [("port", "needs a restart: sockets are opened at the start")]
