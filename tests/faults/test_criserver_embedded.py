"""The agent with the runtime server that it starts itself: both are restarted while the pods keep running."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.criserver.embedded import read_note
from pykubelet.linux.filesystems.mounts import unmount_all_under
from pykubelet.testing.agent import AgentProcess, container_status, is_ready, wait_for
from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.nodetraces import NodeTraces
from pykubelet.testing.ociimage import ImageSpec
from tests.manifests import BUSYBOX, pod

pytestmark = [pytest.mark.root, pytest.mark.runtime]


@pytest.fixture(scope="module")
def server(isolation: Isolation) -> Iterator[PrivateCriServer]:
    """The server that the agent will start; it does not run yet, and has an image."""
    made = PrivateCriServer(isolation.home / "e", f"{isolation.bridge}e", isolation.further_subnet("e"))
    made.write_configuration()
    made.load(ImageSpec(BUSYBOX))
    yield made
    made.destroy()


@pytest.fixture
def agent(isolation: Isolation, server: PrivateCriServer) -> Iterator[AgentProcess]:
    """An agent without a configured runtime, with one pod."""
    flags = ("--criserver-config", str(server.config))
    config = {"oomScoreAdj": 321}  # needs no capability
    made = AgentProcess(isolation.home / "emb", "", f"{isolation.cgroup_root}-e", flags=flags, config=config)
    made.start()
    traces = NodeTraces(made, server)
    made.write("one.json", pod("one"))
    made.wait_running("one")
    try:
        yield made
        made.remove_all_pods()
        traces.assert_none_left()
        assert made.stop() == 0, made.log_tail()
    finally:
        server.stop()
        made.destroy()


def _first_start(agent: AgentProcess) -> object:
    main = container_status(agent.wait_pod("one", is_ready))
    assert main.restart_count == 0
    return main.container_id


def test_oom_score_of_the_configuration_is_that_of_agent_and_server(
    agent: AgentProcess, server: PrivateCriServer
) -> None:
    """Processes of containers, commands too, have the score of their pod."""
    assert [_oom_score(pid) for pid in (agent.pid, server.pid())] == [321, 321]
    assert agent.exec("one", "cat /proc/1/oom_score_adj /proc/self/oom_score_adj").split() == ["1000", "1000"]


def _oom_score(pid: int | None) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_the_server_outlives_the_agent(agent: AgentProcess, server: PrivateCriServer, number: signal.Signals) -> None:
    identity, pid = _first_start(agent), server.pid()
    assert pid is not None
    assert os.getsid(pid) == pid
    agent.stop(number)
    assert server.pid() == pid
    agent.start()
    assert server.pid() == pid, "the second agent started another server"
    assert _first_start(agent) == identity


def test_a_server_that_dies_is_started_again(agent: AgentProcess, server: PrivateCriServer) -> None:
    identity = _first_start(agent)
    for _ in range(2):
        pid = server.pid()
        server.signal(signal.SIGKILL)
        wait_for(lambda: server.pid() not in (None, pid), 15, agent.log_tail)  # noqa: B023  # waited for at once
    agent.write("two.json", pod("two"))
    agent.wait_running("two")
    assert _first_start(agent) == identity


def test_after_an_upgrade_the_server_is_replaced(agent: AgentProcess, server: PrivateCriServer) -> None:
    identity, pid = _first_start(agent), server.pid()
    agent.stop()
    note = server.home / "run" / "server.json"
    note.write_text(json.dumps({**json.loads(note.read_text()), "version": "0.0.1"}))
    agent.start()
    assert server.pid() not in (None, pid)
    assert _first_start(agent) == identity


def test_server_started_by_administrator_is_used(agent: AgentProcess, server: PrivateCriServer) -> None:
    identity = _first_start(agent)
    agent.stop()
    server.stop()
    server.start()
    pid = server.pid()
    agent.start()
    assert server.pid() == pid
    assert _first_start(agent) == identity
    found = read_note(server.home / "run")
    assert found is not None
    assert not found.kept


def test_a_server_that_cannot_start_is_explained(isolation: Isolation, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(json.dumps({"conmon": "no-such-conmon", "root": str(tmp_path / "r"), "run": str(tmp_path / "s")}))
    agent = AgentProcess(
        isolation.home / "bad", "", f"{isolation.cgroup_root}-b", flags=("--criserver-config", str(bad))
    )
    with pytest.raises(AssertionError, match="the agent ended with 1"):
        agent.start()
    assert "no-such-conmon is not installed" in agent.log_tail()
    agent.destroy()
    unmount_all_under(str(tmp_path), lazy=True)  # the directory of network namespaces stays a mount
