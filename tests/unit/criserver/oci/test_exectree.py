"""Selection and kill of the processes of a command."""

import subprocess

import pytest

from pykubelet.criserver.oci import exectree
from pykubelet.criserver.oci.exectree import Row, kill_all, kill_tree, kill_trees, members
from pykubelet.linux.pidfd import PidFd
from tests.unit.criserver.streaming.rig import strange_process

OWN = 7


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([Row(50, 1, 50, False)], [50]),
        ([Row(50, 1, 50, True)], []),
        ([Row(50, 1, 50, False), Row(51, 50, 50, False), Row(52, 51, 52, False)], [50, 51, 52]),
        # The first one has ended: its session tells which processes belong to it.
        ([Row(60, 1, 50, False), Row(61, 60, 61, False), Row(70, 1, 70, False)], [60, 61]),
        # Without a session of its own only its descendants are its own.
        ([Row(50, 1, 40, False), Row(51, 50, 40, False), Row(40, 1, 40, False)], [50, 51]),
        ([Row(1, 0, 1, False), Row(2, 1, 2, False)], []),
    ],
)
def test_members_of_a_command_are_its_living_descendants(rows: list[Row], expected: list[int]) -> None:
    assert [row.pid for row in members(rows, {50}, OWN)] == expected


def test_own_session_is_never_selected() -> None:
    assert [row.pid for row in members([Row(OWN, 1, OWN, False), Row(9, 1, OWN, False)], {OWN}, OWN)] == [OWN]


def test_command_is_killed_with_its_orphaned_descendants() -> None:
    script = "sleep 100 & (sleep 200 & echo $!); exec sleep 300"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True) as command:
        assert command.stdout is not None
        orphan = int(command.stdout.readline())
        kill_tree(command.pid, lambda _: True)
        assert command.wait(10) == -9
        # All writers of the pipe are gone.
        assert command.stdout.read() == b""
    # What has adopted it may have reaped it already.
    with pytest.raises((ProcessLookupError, FileNotFoundError)):
        _still_runs(orphan)


def test_process_that_is_not_part_of_the_command_is_spared() -> None:
    with strange_process() as other:
        asked: list[int] = []

        def belongs(pid: int) -> bool:
            asked.append(pid)
            return False

        kill_tree(other.pid, belongs)
        assert asked == [other.pid]
        assert other.poll() is None


def test_listed_process_whose_pid_was_reused_is_spared() -> None:
    with strange_process() as other:
        listed = Row(other.pid, 1, other.pid, False, started=1)
        assert not exectree._kill(listed, lambda _: True)
        assert other.poll() is None


def _still_runs(pid: int) -> None:
    with open(f"/proc/{pid}/stat") as file:
        if file.read().rpartition(")")[2].split()[0] in "ZX":
            raise ProcessLookupError


def test_processes_that_take_their_time_to_die_are_killed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of a throttled container needs its turn to die, and thousands of them would be killed again in each round."""
    asked: list[int] = []

    def belongs(pid: int) -> bool:
        asked.append(pid)
        return True

    monkeypatch.setattr(PidFd, "send_signal", lambda process, number: None)
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        kill_tree(process.pid, belongs)
        assert asked == [process.pid]
        asked.clear()
        kill_all(lambda pid: pid == process.pid and belongs(pid))
        assert asked == [process.pid]
        process.kill()


def test_commands_that_fork_without_end_take_no_more_than_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise one in a container would delay the start of the runtime server for minutes."""
    clock, killed = [0.0], list[int]()

    def kill(row: Row, _belongs: object) -> bool:
        clock[0] += 0.5
        killed.append(row.pid)
        return True

    monkeypatch.setattr(exectree, "_kill", kill)
    monkeypatch.setattr(
        exectree, "_rows", lambda: [Row(n, 1, 1, False) for n in range(len(killed) + 1, len(killed) + 5)]
    )
    assert not kill_trees({1}, lambda _: True, lambda: clock[0] >= 3.0)
    assert len(killed) == 6
