"""Text of containers, manifests and events that would control the terminal or hide and reorder what it shows."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pykubelet.base.errors import Invalid, NotFound
from pykubelet.cli import app
from pykubelet.cli.app import cli
from pykubelet.cli.arguments import pod_completion
from pykubelet.cli.commands.pods import describe, explain, get, timeline
from pykubelet.cli.output.output_form import OutputForm, document_printer
from pykubelet.cli.plan.stable_columns import StableColumns
from pykubelet.cli.terminal import echo

EVIL = "\x1b]0;pwned\x07\x9b2J\u202egpj\u200b\ufeff\U000e0041"
SAFE = "\\x1b]0;pwned\\x07\\x9b2J\\u202egpj\\u200b\\ufeff\\U000e0041"
ENDED = {"terminated": {"exitCode": 1, "reason": "Error", "message": f"{EVIL}\nReady: True"}}
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web-n1", "namespace": "default", "uid": "u", "annotations": {"note": f"{EVIL}\nStatus: x"}},
    "spec": {"nodeName": "n1", "containers": [{"name": "app", "image": "i", "args": [f"{EVIL}\n  Image: x"]}]},
    "status": {
        "phase": "Failed",
        "reason": EVIL,
        "message": f"{EVIL}\nIP: 1.2.3.4",
        "containerStatuses": [{"name": "app", "ready": False, "restartCount": 0, "state": ENDED}],
        "conditions": [{"type": "Ready", "status": "False", "message": f"{EVIL}\nNode: x"}],
    },
}
EVENT = {
    "metadata": {"name": "e", "namespace": "default"},
    "type": "Warning",
    "reason": "Failed",
    "message": f"{EVIL}\nNormal   Started",
    "involvedObject": {"kind": "Pod", "name": "web-n1", "namespace": "default"},
}
DECISION = {"at": 0.0, "topic": "t", "subject": EVIL, "action": "a", "reason": EVIL, "message": f"{EVIL}\nWaits for: x"}
STEP = {"step": "pull", "container": EVIL, "start_s": 0.0, "duration_s": 1.0, "error": f"{EVIL}\nnone"}


class FakeApi:
    path = "the socket"

    def get(self, path: str, **_: object) -> Any:
        if path.startswith("/pykubelet/v1/explain/"):
            sync = {"at": 0.0, "decisions": [DECISION]}
            head = {"namespace": "default", "name": "web", "phase": "Failed", "reason": EVIL, "message": f"{EVIL}\nx"}
            wait = {"kind": "probe", "subject": EVIL, "reason": EVIL}
            return {**head, "waits": [wait], "lastSync": sync, "decisions": [DECISION]}
        if path.startswith("/pykubelet/v1/timeline/"):
            return {"steps": [STEP]}
        if path.endswith("/manifests"):
            return {"items": [{"file": EVIL, "objects": ["Pod default/web"]}]}
        if path.startswith("/pykubelet/v1/restarts/"):
            raise NotFound("none")
        return {"metadata": {}, "items": [EVENT] if path.endswith("/events") else [POD]}


@pytest.fixture(autouse=True)
def _api(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (describe, explain, get, timeline):
        monkeypatch.setattr(module, "api_of", lambda _: FakeApi())
    monkeypatch.setattr(get, "_banner", lambda _: None)


@pytest.mark.parametrize(
    "words",
    [
        ["describe", "web"],
        ["explain", "web"],
        ["timeline", "web"],
        ["get", "events"],
        ["get", "pods"],
        ["get", "pods", "-o", "custom-columns=M:.status.message"],
        ["get", "pods", "-o", "json"],
        ["get", "pods", "-o", "yaml"],
    ],
    ids=" ".join,
)
def test_output_of_a_command_with_hostile_text_is_escaped(words: list[str]) -> None:
    result = CliRunner().invoke(cli, words, color=True)
    assert result.exit_code == 0, result.output
    assert not set(EVIL) & set(result.output) - set(map(chr, range(32, 127)))
    if not words[-1].endswith(("json", "yaml")):
        forged = ("Ready: True", "Status: x", "Image: x", "IP: 1.2.3.4", "Node: x", "Normal   Started", "Waits for: x")
        lines = result.output.splitlines()
        assert not [line for line in lines if line.strip().startswith(forged) and not line.startswith(" " * 18)]


@pytest.mark.parametrize(
    ("terminal", "shown"), [(True, SAFE), (False, EVIL)], ids=["a person gets escapes", "a script gets the value"]
)
def test_jsonpath_value_is_escaped_on_a_terminal_only(
    terminal: bool, shown: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    document_printer(OutputForm("jsonpath", "{.text}"))({"text": EVIL})
    # Without a terminal, click takes the escape sequences out of the test's stream.
    assert capsys.readouterr().out[-8:] == shown[-8:]


def exit_status(monkeypatch: pytest.MonkeyPatch) -> int:
    """Run ``main`` and return its exit status; it ends the process without the interpreter's clean-up."""
    monkeypatch.setattr(os, "_exit", sys.exit)
    with pytest.raises(SystemExit) as ended:
        app.main()
    return int(str(ended.value.code))


def test_error_with_hostile_text_is_escaped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: object) -> None:
        raise NotFound(f"pod {EVIL}")

    monkeypatch.setattr(app.cli, "main", fail)
    assert exit_status(monkeypatch) != 0
    assert capsys.readouterr().err == f"error: pod {SAFE}\n"


def test_error_of_the_system_names_the_file_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(app.cli, "main", lambda **_: Path("n" * 300).stat())
    assert (exit_status(monkeypatch), capsys.readouterr().err) == (1, f"error: '{'n' * 300}': File name too long\n")


def test_usage_error_with_hostile_text_is_escaped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["pykubelet", "get", f"x{EVIL}"])
    assert exit_status(monkeypatch) == 2
    assert not set("\x1b\x9b\u202e\u200b") & set(capsys.readouterr().err)


def test_echo_keeps_lines_and_tabs(capsys: pytest.CaptureFixture[str]) -> None:
    echo(f"one\n\ttwo {EVIL}", nl=False)
    assert capsys.readouterr().out == f"one\n\ttwo {SAFE}"


def test_watch_row_with_a_line_feed_stays_one_row() -> None:
    assert StableColumns(["NAME"], headed=False).render([["a\nb   Running"]]) == "a\\nb   Running"


def test_documents_stay_exact() -> None:
    result = CliRunner().invoke(cli, ["get", "pods", "-o", "json"])
    assert json.loads(result.output)["items"][0] == POD


def test_completion_of_hostile_text_stays_one_line_for_each_word() -> None:
    words = [("app", f"{EVIL}\nplain,rm -rf /"), ("app\nplain,rm", ""), (EVIL, "")]
    assert [(item.value, item.help) for item in pod_completion._starting("", words)] == [
        ("app", f"{SAFE}\\nplain,rm -rf /")
    ]


def test_install_refuses_a_path_that_would_add_lines_to_a_unit(tmp_path: Path) -> None:
    path = str(tmp_path / "m\nExecStartPre=/bin/evil")
    result = CliRunner().invoke(cli, ["install", "--dry-run", "--manifests", path])
    assert isinstance(result.exception, Invalid)
    assert "--manifests" in str(result.exception)
    assert result.output == ""
