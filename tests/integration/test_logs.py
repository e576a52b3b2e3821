"""Container logs on a real runtime: rotated while they are written and followed, nothing lost."""

import subprocess
from pathlib import Path

import pytest

from pykubelet.testing.agent import AgentProcess, cli_command, environment, wait_for
from tests.manifests import Apply, container, pod, serving

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.slow]

_MAX_FILES = 3


@pytest.fixture(scope="module")
def agent_config() -> dict[str, object]:
    return {
        "containerLogMaxSize": "16Ki",
        "containerLogMaxFiles": _MAX_FILES,
        "containerLogMonitorInterval": "3s",
    }


def test_log_rotation_while_followed_loses_nothing(agent: AgentProcess, apply: Apply, tmp_path: Path) -> None:
    # 100 lines of about 100 bytes every tenth of a second fill the log between two checks.
    script = 'i=0; while [ $i -lt 12000 ]; do i=$((i+1)); echo "$i ----------------------------------------"; '
    script += "[ $((i % 100)) -eq 0 ] && sleep 0.1; done"
    apply("chatty", pod("chatty", container(command=serving(script))), pod("quiet"))
    seen = agent.wait_running("chatty", "quiet")[0]
    directory = agent.pod_logs / f"default_{seen.metadata.name}_{seen.metadata.uid}" / "main"
    followed = tmp_path / "followed"
    with (
        followed.open("wb") as out,
        subprocess.Popen(cli_command(agent.socket, "logs", "-f", "chatty"), stdout=out, env=environment()) as reader,
    ):
        try:
            wait_for(lambda: bool(list(directory.glob("0.log.*.gz"))), 30, lambda: f"{list(directory.iterdir())}")
            wait_for(lambda: b"\n12000 " in followed.read_bytes(), 40, lambda: followed.read_text()[-200:])
        finally:
            reader.terminate()
    numbers = [int(line.split()[0]) for line in followed.read_text().splitlines()]
    assert numbers == list(range(1, 12001))
    # While the log is rotated, its name is missing for a moment, and a file more is there.
    wait_for(lambda: _is_rotated(directory), 20, lambda: f"{sorted(directory.iterdir())}")
    quiet = agent.pod("quiet")
    assert [path.name for path in agent.pod_logs.glob(f"*_{quiet.metadata.uid}/main/*")] == ["0.log"]


def _is_rotated(directory: Path) -> bool:
    """Whether there is a log, the last part that was rotated out, and compressed parts; no more than configured."""
    names = sorted(path.name for path in directory.iterdir())
    return (
        2 <= len(names) <= _MAX_FILES
        and names[0] == "0.log"
        and all(name.endswith(".gz") for name in names[1:-1])
        and not names[-1].endswith(".tmp")
    )


def test_log_of_a_running_container_that_was_deleted_is_written_again(agent: AgentProcess, apply: Apply) -> None:
    """As upstream: someone needed space; the deleted file would grow unseen."""
    ticking = serving("while :; do echo tick; sleep 1; done")
    apply("ticking", pod("ticking", container(command=ticking)))
    [seen] = agent.wait_running("ticking")
    [log] = agent.pod_logs.glob(f"*_{seen.metadata.uid}/main/0.log")
    log.unlink()
    wait_for(lambda: log.exists() and b"tick" in log.read_bytes(), 20, agent.log_tail)
