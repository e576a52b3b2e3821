"""Objects that a killed run-once left in the manifest directory are found, and removed unless they were changed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pykubelet.cli.changes.run_records import leftovers, remove_leftovers
from pykubelet.kubelet.desired.changes import ManifestDirectory
from tests.unit.cli.killed_run import MAP, POD, item, manifest_directory, put


@pytest.fixture
def directory(tmp_path: Path) -> ManifestDirectory:
    (tmp_path / "m").mkdir()
    return manifest_directory(tmp_path / "m")


def _put_and_be_killed(directory: ManifestDirectory) -> None:
    root = Path(__file__).parents[3]
    found = {**os.environ, "PYTHONPATH": f"{root}:{root / 'src'}"}
    command = [sys.executable, "-m", "tests.unit.cli.killed_run", str(directory.path)]
    assert subprocess.run(command, cwd=root, env=found).returncode == -signal.SIGKILL


def _names(directory: ManifestDirectory) -> set[str]:
    return {path.name for path in directory.path.iterdir()}


def test_objects_of_a_killed_command_are_removed(directory: ManifestDirectory) -> None:
    _put_and_be_killed(directory)
    assert leftovers(directory.path) == ["ConfigMap default/settings", "Pod default/job"]
    assert remove_leftovers(directory) == ["Pod default/job", "ConfigMap default/settings"]
    assert _names(directory) == set()


def test_objects_of_a_command_that_runs_are_kept(directory: ManifestDirectory) -> None:
    record = put(directory, MAP, POD)
    assert (leftovers(directory.path), remove_leftovers(directory)) == ([], [])
    assert len(_names(directory)) == 3
    record.forget()
    assert len(_names(directory)) == 2


def test_object_that_was_changed_since_is_kept(directory: ManifestDirectory) -> None:
    _put_and_be_killed(directory)
    with directory.locked():
        directory.apply(item(POD.replace("image: i", "image: j")), POD.replace("image: i", "image: j"))
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
