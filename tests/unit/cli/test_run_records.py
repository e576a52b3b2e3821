"""What a killed run-once leaves in the manifest directory is found, and removed unless it was changed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pykubelet.cli.changes.run_records import RunRecord, leftovers, remove_leftovers
from pykubelet.kubelet.desired.changes import ManifestDirectory
from pykubelet.kubelet.desired.manifest import ManifestObject, parse

MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {k: v}\n"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: job}\nspec: {containers: [{name: a, image: i}]}\n"


@pytest.fixture
def directory(tmp_path: Path) -> ManifestDirectory:
    (tmp_path / "m").mkdir()
    return ManifestDirectory(path=tmp_path / "m", node_name="n1", kept={})


def _item(text: str) -> ManifestObject:
    return parse(text.encode(), "given").objects[0]


def _put(directory: ManifestDirectory, *texts: str) -> RunRecord:
    with directory.locked():
        record = RunRecord(directory, [_item(text) for text in texts])
        for text in texts:
            directory.apply(_item(text), text)
    return record


def _put_and_be_killed(directory: ManifestDirectory) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path; from tests.unit.cli import test_run_records as t;"
        "d = t.ManifestDirectory(path=Path(sys.argv[1]), node_name='n1', kept={});"
        "record = t._put(d, t.MAP, t.POD); os.kill(os.getpid(), signal.SIGKILL)"
    )
    root = Path(__file__).parents[3]
    found = {**os.environ, "PYTHONPATH": f"{root}:{root / 'src'}"}
    done = subprocess.run([sys.executable, "-c", program, str(directory.path)], cwd=root, env=found)
    assert done.returncode == -9


def _names(directory: ManifestDirectory) -> set[str]:
    return {path.name for path in directory.path.iterdir()}


def test_objects_of_a_killed_command_are_removed(directory: ManifestDirectory) -> None:
    _put_and_be_killed(directory)
    assert leftovers(directory.path) == ["ConfigMap default/settings", "Pod default/job"]
    assert remove_leftovers(directory) == ["Pod default/job", "ConfigMap default/settings"]
    assert _names(directory) == set()


def test_objects_of_a_command_that_runs_are_kept(directory: ManifestDirectory) -> None:
    record = _put(directory, MAP, POD)
    assert (leftovers(directory.path), remove_leftovers(directory)) == ([], [])
    assert len(_names(directory)) == 3
    record.forget()
    assert len(_names(directory)) == 2


def test_object_that_was_changed_since_is_kept(directory: ManifestDirectory) -> None:
    _put_and_be_killed(directory)
    with directory.locked():
        directory.apply(_item(POD.replace("image: i", "image: j")), POD.replace("image: i", "image: j"))
    assert remove_leftovers(directory) == ["ConfigMap default/settings"]
    assert _names(directory) == {"job.yaml"}


@pytest.mark.parametrize("text", ["", "[{", '{"a": 1}'])
def test_record_that_is_cut_off_is_removed(text: str, directory: ManifestDirectory) -> None:
    (directory.path / ".run-once-0.json").write_text(text)
    assert remove_leftovers(directory) == []
    assert _names(directory) == set()


def test_link_or_pipe_in_place_of_a_record_is_left_alone(directory: ManifestDirectory, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("[]")
    (directory.path / ".run-once-0.json").symlink_to(tmp_path / "other")
    assert remove_leftovers(directory) == []
    assert (tmp_path / "other").exists()


def test_directory_that_does_not_exist_has_no_leftovers(tmp_path: Path) -> None:
    assert leftovers(tmp_path / "none") == []
    assert remove_leftovers(ManifestDirectory(path=tmp_path / "none", node_name="n1", kept={})) == []
    assert not (tmp_path / "none").exists()
