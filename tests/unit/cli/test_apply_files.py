"""`apply` has the agent apply the files, and applies those itself that the agent cannot."""

import io
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pykubelet.base.errors import Invalid, NotFound, Permanent
from pykubelet.cli.changes import agent_directory, manifest_files
from pykubelet.cli.changes.apply_files import apply_files
from pykubelet.cli.client.local_api import LocalApi
from pykubelet.cli.client.rejected_request import RejectedRequest
from pykubelet.kubelet.desired.manifest.manifest_types import MAX_BYTES

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: a, image: one}]}\n"
CREATED = {"changes": [{"label": "configmap/c", "change": "created"}]}


class _Api(LocalApi):
    """An agent with this answer."""

    def __init__(self, answer: Mapping[str, Any] | Exception) -> None:
        super().__init__("/none")
        self.answer = answer
        self.sent: list[Any] = []

    def post(self, path: str, body: bytes = b"", /, **query: object) -> Any:
        assert path == "/pykubelet/v1/apply"
        self.sent.append(json.loads(body))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def web(tmp_path: Path) -> str:
    path = tmp_path / "web.yaml"
    path.write_text(POD)
    return str(path)


@pytest.fixture
def applied_here(monkeypatch: pytest.MonkeyPatch) -> list[list[tuple[str, bytes]]]:
    """The documents that the command has applied by itself."""
    calls: list[list[tuple[str, bytes]]] = []

    def apply(api: LocalApi, texts: list[tuple[str, bytes]], *, namespace: str, dry_run: bool) -> Mapping[str, Any]:
        calls.append(texts)
        return CREATED

    monkeypatch.setattr(agent_directory, "apply_here", apply)
    return calls


def test_agent_gets_the_texts_with_their_names(
    web: str, capsys: pytest.CaptureFixture[str], applied_here: list[object]
) -> None:
    api = _Api(CREATED)
    apply_files(api, [web], namespace="apart")
    assert api.sent == [{"documents": [{"origin": web, "text": POD}], "namespace": "apart", "dryRun": False}]
    assert capsys.readouterr().out == "configmap/c created\n"
    assert applied_here == []


def test_directory_and_standard_input_are_read(
    web: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".hidden.yaml").write_text("no")
    (tmp_path / "web.yaml~").write_text("no")
    (tmp_path / "below").mkdir()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"given")))
    api = _Api(CREATED)
    apply_files(api, [tmp_path, "-"], dry_run=True)
    [sent] = api.sent
    assert [(each["origin"], each["text"]) for each in sent["documents"]] == [(web, POD), ("<stdin>", "given")]
    assert capsys.readouterr().out == "configmap/c created (dry run)\n"


@pytest.mark.parametrize("text", [POD.encode() + b"# " + 70_000 * b"x", POD.encode() + b"# \xff"])
def test_text_that_no_request_can_have_is_applied_by_the_command(
    tmp_path: Path, text: bytes, applied_here: list[list[tuple[str, bytes]]]
) -> None:
    path = tmp_path / "large.yaml"
    path.write_bytes(text)
    api = _Api(CREATED)
    apply_files(api, [path])
    assert api.sent == []
    assert applied_here == [[(str(path), text)]]


def test_agent_that_does_not_know_the_request_leaves_it_to_the_command(
    web: str, applied_here: list[list[tuple[str, bytes]]]
) -> None:
    apply_files(_Api(NotFound("POST /pykubelet/v1/apply: Not Found")), [web])
    assert applied_here == [[(web, POD.encode())]]


def test_findings_that_are_errors_end_the_command(web: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        apply_files(_Api({"findings": [f"{web}:4: error: wrong"], "errors": 1}), [web])
    assert end.value.code == 1
    assert capsys.readouterr().err == f"{web}:4: error: wrong\nerror: 1 problem; nothing was changed\n"


def test_fault_comes_after_the_changes_before_it(web: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Permanent, match="disk is full"):
        apply_files(_Api({**CREATED, "fault": "the disk is full"}), [web])
    assert capsys.readouterr().out == "configmap/c created\n"


def test_text_that_the_agent_rejects_is_wrong_usage(web: str) -> None:
    with pytest.raises(Invalid, match="cannot") as raised:
        apply_files(_Api(RejectedRequest("it cannot be")), [web])
    assert not isinstance(raised.value, RejectedRequest)


def test_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(Permanent, match=r"none\.yaml: the file does not exist"):
        apply_files(_Api(CREATED), [tmp_path / "none.yaml"])
    with pytest.raises(Permanent, match="no object found"):
        apply_files(_Api(CREATED), [tmp_path])


def test_one_byte_more_than_the_parser_takes_is_read() -> None:
    assert manifest_files._MOST == MAX_BYTES + 1
