"""``timeline`` for given answers of the local API."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pykubelet.cli.app import cli
from pykubelet.cli.commands.pods import timeline

STEP = {"step": "sandbox", "container": "", "start_s": 0.0, "duration_s": 0.5, "error": "", "running": False}


def view(name: str, *steps: dict[str, Any]) -> dict[str, Any]:
    return {
        "pod": f"default/{name}",
        "uid": name,
        "started_at": 0.0,
        "steps": list(steps),
        "total_s": 0.5,
        "ready": True,
    }


class FakeApi:
    def get(self, path: str, labelSelector: str = "") -> object:  # noqa: N803 - as the API names it
        if path == "/api/v1/pods":
            return {"items": [{"metadata": {"namespace": "default", "name": name}} for name in ("web", "db", "old")]}
        name = path.removeprefix("/pykubelet/v1/timeline/default/")
        return view(name) if name == "old" else {**view(name, STEP), "earlier": [view(name, STEP)]}


@pytest.fixture(autouse=True)
def _api(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "api_of", lambda _: FakeApi())


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["timeline", *words])


def test_charts_of_several_pods() -> None:
    assert run("pod", "web", "db").stdout.count("sandbox") == 4
    assert [line.split(":")[0] for line in run("web").stdout.splitlines() if ":" in line] == ["web", "web"]


def test_json_of_one_pod_is_an_object_and_of_several_a_list() -> None:
    assert json.loads(run("web", "-o", "json").stdout)["pod"] == "default/web"
    assert [each["pod"] for each in json.loads(run("web", "db", "-o", "json").stdout)] == ["default/web", "default/db"]


def test_picture_is_written_to_a_file_or_to_standard_output(tmp_path: Path) -> None:
    path = tmp_path / "starts.svg"
    done = run("web", "db", "--svg", str(path))
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", f"wrote {path}\n")
    assert path.read_text().count(">default/web</text>") == 2
    assert run("web", "db", "--svg", "-").stdout == path.read_text()


def test_picture_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    missing = tmp_path / "none" / "a.svg"
    assert str(run("web", "--svg", str(missing)).exception) == f"cannot write {missing}: No such file or directory"
    assert "no start was recorded" in str(run("old", "--svg", str(tmp_path / "a.svg")).exception)
    assert not (tmp_path / "a.svg").exists()
    assert run("web", "--svg", "a.svg", "-o", "json").exit_code == 2
