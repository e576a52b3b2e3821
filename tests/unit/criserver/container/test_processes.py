"""Processes by number and start time."""

import signal
import subprocess
from pathlib import Path

from pykubelet.criserver.container.processes import end_commands, monitors
from pykubelet.criserver.processes import is_alive, open_process, reference
from pykubelet.criserver.types import ContainerID, ProcessRef


def test_a_process_is_told_from_another_of_its_number() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        found = reference(process.pid)
        assert found is not None
        assert is_alive(found)
        assert not is_alive(ProcessRef(found.pid, found.started + 1))
        process.kill()
        process.wait()
        assert not is_alive(found)
        assert open_process(found) is None
    assert reference(process.pid) is None
    assert not is_alive(None)


def test_monitors_are_found_by_their_command_line() -> None:
    with subprocess.Popen(["conmon-stand-in", "30", "-c", "c1"], executable="/bin/sleep") as other:
        # `sleep` refuses the flag and ends; what matters is that nothing else is taken for a monitor.
        other.wait()
    assert ContainerID("c1") not in monitors("conmon-stand-in")


def test_commands_that_nobody_hears_are_ended(tmp_path: Path) -> None:
    mine = Path("/proc/self/cgroup").read_text().split("/")[-1].strip() or "/"
    with subprocess.Popen(["sleep", "60"]) as command, subprocess.Popen(["sleep", "60"]) as stranger:
        (tmp_path / "exec-a").mkdir()
        (tmp_path / "exec-a" / "pid").write_text(str(command.pid))
        (tmp_path / "exec-b").mkdir()
        (tmp_path / "call-c").mkdir()
        (tmp_path / "call-c" / "pid").write_text(str(stranger.pid))
        end_commands(tmp_path, ["no-such-container"])
        assert command.poll() is None
        end_commands(tmp_path, [mine])
        assert command.wait(10) == -signal.SIGKILL
        assert stranger.poll() is None
        end_commands(tmp_path, [mine])
        stranger.kill()
