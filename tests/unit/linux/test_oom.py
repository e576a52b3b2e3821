"""OOM kills of a cgroup."""

from pathlib import Path

import pytest

from pykubelet.linux.cgroups import Layout, Mode
from pykubelet.linux.cgroups.oom import OomCounter


@pytest.mark.parametrize(
    ("mode", "file", "text"),
    [
        (Mode.V1, "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"),
        (Mode.V2, "memory.events", "low 0\nhigh 0\nmax 9\noom 1\noom_kill 3\n"),
    ],
)
def test_oom_kills_are_counted_on_both_cgroup_versions(tmp_path: Path, mode: Mode, file: str, text: str) -> None:
    layout = Layout(mode, tmp_path if mode is Mode.V2 else None, {} if mode is Mode.V2 else {"memory": tmp_path})
    (tmp_path / "pod").mkdir()
    (tmp_path / "pod" / file).write_text(text)
    counter = OomCounter(layout)
    assert counter.kills("/pod") == 3
    assert counter.kills("/gone") == 0


def test_a_machine_without_cgroups() -> None:
    assert OomCounter(Layout(Mode.NONE)).kills("/pod") == 0
