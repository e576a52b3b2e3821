"""The agent's run directory with the runtime server's directory in it, as it is by default, and access to it."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pykubelet.testing.agent import AgentProcess
from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.nodetraces import NodeTraces
from pykubelet.testing.ociimage import ImageSpec
from tests.manifests import BUSYBOX, pod

pytestmark = [pytest.mark.root, pytest.mark.runtime]
_TRY = """
import json, os, socket, sys
os.setgroups([]), os.setgid(65534), os.setuid(65534)
reached = []
for path, kind in json.load(sys.stdin):
    try:
        if kind == "socket":
            socket.socket(socket.AF_UNIX).connect(path)
        elif kind == "directory":
            os.listdir(path)
        else:
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        reached.append(path)
    except (PermissionError, FileNotFoundError):  # the daemons go on working
        pass
print(json.dumps(reached))
"""


@pytest.fixture
def server(isolation: Isolation) -> Iterator[PrivateCriServer]:
    """The server that the agent will start, below the agent's run directory; it has an image."""
    home = isolation.home / "u" / "run" / "s"
    made = PrivateCriServer(home, f"{isolation.bridge}d", isolation.further_subnet("d"))
    made.write_configuration()
    made.load(ImageSpec(BUSYBOX))
    for directory in (home, home.parent, home.parent.parent):
        directory.chmod(0o755)
    yield made
    made.destroy()


@pytest.fixture
def agent(isolation: Isolation, server: PrivateCriServer) -> Iterator[AgentProcess]:
    """An agent that starts this server."""
    flags = ("--criserver-config", str(server.config))
    made = AgentProcess(isolation.home / "u", "", f"{isolation.cgroup_root}-d", flags=flags)
    made.start()
    traces = NodeTraces(made, server)
    try:
        yield made
        made.remove_all_pods()
        traces.assert_none_left()
        assert made.stop() == 0, made.log_tail()
    finally:
        server.stop()
        made.destroy()


def test_pod_with_user_namespace_runs_after_each_start_of_the_server(
    agent: AgentProcess, server: PrivateCriServer
) -> None:
    agent.write("first.json", pod("first", hostUsers=False))
    agent.wait_running("first")
    agent.stop()
    server.stop()
    agent.start()
    agent.write("second.json", pod("second", hostUsers=False))
    agent.wait_running("second")
    for name in ("first", "second"):
        assert agent.exec(name, "cat /proc/self/uid_map").split()[1:2] != ["0"]


def test_other_users_reach_no_socket_and_no_file_below_the_run_directory(
    agent: AgentProcess, server: PrivateCriServer
) -> None:
    agent.write("own.json", pod("own", hostUsers=False))
    agent.write("plain.json", pod("plain"))
    agent.wait_running("own", "plain")
    top = agent.socket.parent
    kinds = dict(_kinds(top, *top.glob("*"), *_below(server.home / "run")))
    paths = list(kinds.items())
    assert kinds[str(agent.socket)] == "socket" and kinds[str(top)] == "directory" and len(kinds) > 20, kinds
    done = subprocess.run(
        [sys.executable, "-I", "-c", _TRY],
        input=json.dumps([*paths, (str(server.socket), "socket")]),
        capture_output=True,
        text=True,
        check=True,
    )
    # The directory of the test itself; and network namespaces can be listed, as in /run/netns, but need root to enter.
    shared = {str(server.home), *(path for path, _ in paths if path.startswith(f"{server.home}/run/netns"))}
    assert set(json.loads(done.stdout)) == shared


def _below(directory: Path) -> Iterator[Path]:
    """All that is below a directory, some of which may vanish meanwhile."""
    for top, directories, files in os.walk(directory):
        yield from (Path(top, name) for name in (*directories, *files))


def _kinds(*paths: Path) -> Iterator[tuple[str, str]]:
    for path in paths:
        with suppress(FileNotFoundError):
            mode = os.lstat(path).st_mode
            yield str(path), "socket" if stat.S_ISSOCK(mode) else "directory" if stat.S_ISDIR(mode) else "file"
