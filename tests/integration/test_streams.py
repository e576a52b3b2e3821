"""exec with input, attach and port-forward of the command line, on a real runtime."""

import os
import pty
import re
import select
import signal
import socket
import subprocess
import termios
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pykubelet.testing.agent import AgentProcess, cli_command, environment, wait_for
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.runtime import PrivateRuntime
from tests.manifests import container, pod

pytestmark = [pytest.mark.root, pytest.mark.runtime]

_WEB = """
mkdir -p /www && head -c 300000 /dev/zero | tr '\\0' y > /www/big && echo hello > /www/small
httpd -p 127.0.0.1:8080 -h /www; httpd -p '[::1]:8081' -h /www
exec sleep 3600
"""
_ECHO = "while read line; do echo got $line; echo error $line >&2; done; echo input ended; exec sleep 3600"


@pytest.fixture(scope="module", autouse=True)
def shown(agent: AgentProcess) -> Iterator[None]:
    """The pods that the commands are asked about."""
    agent.write(
        "streams.json",
        pod("web", container("main", ["sh", "-c", _WEB])),
        pod(
            "talk",
            container("main", ["sh", "-c", _ECHO], stdin=True, stdinOnce=True),
            container("shell", ["sh"], stdin=True, tty=True),
            container("dumb", ["sh", "-c", "while :; do echo tick; sleep 0.2; done"]),
        ),
    )
    agent.write("host.json", pod("host", container(command=["sleep", "3600"]), hostNetwork=True))
    agent.wait_running("web", "talk", "host")
    yield
    (agent.manifests / "streams.json").unlink()
    (agent.manifests / "host.json").unlink()


@contextmanager
def _start(agent: AgentProcess, *arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(
        cli_command(agent.socket, *arguments),
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def _read_until(descriptor: int, text: str, timeout: float = 20.0, seen: str = "") -> str:
    deadline = time.monotonic() + timeout * PATIENCE
    while text not in seen:
        ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"no {text!r} within {timeout} s; so far:\n{seen}"
        data = os.read(descriptor, 65536)
        assert data, f"the command ended without {text!r}:\n{seen}"
        seen += data.decode(errors="replace")
    return seen


def _end(process: "subprocess.Popen[bytes]") -> int:
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20 * PATIENCE)
    return process.returncode


def test_exec_passes_end_of_stdin(agent: AgentProcess) -> None:
    data = os.urandom(500_000)
    command = cli_command(agent.socket, "exec", "-i", "web", "--", "md5sum")
    done = subprocess.run(command, input=data, capture_output=True, env=environment(), timeout=60 * PATIENCE)
    assert done.returncode == 0, done.stderr
    echo = cli_command(agent.socket, "exec", "-i", "web", "--", "cat")
    done = subprocess.run(echo, input=data, capture_output=True, env=environment(), timeout=60 * PATIENCE)
    assert done.stdout == data
    code = cli_command(agent.socket, "exec", "-i", "web", "--", "sh", "-c", "cat >&2; exit 9")
    done = subprocess.run(code, input=b"seen", capture_output=True, env=environment(), timeout=60 * PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (9, b"", b"seen")


def test_exec_of_command_that_exits_before_reading_stdin_ends(agent: AgentProcess) -> None:
    with _start(agent, "exec", "-i", "web", "--", "sh", "-c", "echo done; exit 3") as process:
        assert process.stdout is not None
        assert b"done" in process.stdout.read()
        assert process.wait(timeout=20 * PATIENCE) == 3


def test_attach_shows_output(agent: AgentProcess) -> None:
    with _start(agent, "attach", "talk", "-c", "dumb") as process:
        assert process.stdout is not None
        _read_until(process.stdout.fileno(), "tick\ntick\n")
        _end(process)


def test_attach_passes_stdin_and_its_end(agent: AgentProcess) -> None:
    with _start(agent, "attach", "-i", "talk", "-c", "main") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"one\n")
        process.stdin.flush()
        # Two streams: either may come first.
        seen = _read_until(process.stdout.fileno(), " one\n")
        _read_until(process.stdout.fileno(), "got one" if "error one" in seen else "error one", seen=seen)
        process.stdin.close()
        _read_until(process.stdout.fileno(), "input ended")
        process.stdin = None
        _end(process)


def test_attach_to_a_terminal_follows_its_size(agent: AgentProcess) -> None:
    child, descriptor = pty.fork()
    if child == 0:
        command = cli_command(agent.socket, "attach", "-it", "talk", "-c", "shell")
        os.execvpe("sh", ["sh", "-c", 'stty rows 31 cols 97; exec "$@"', "sh", *command], environment())
    try:
        # What is typed before the client listens may be lost with its terminal's old settings.
        _read_until(descriptor, "press Enter")
        wait_for(
            lambda: not termios.tcgetattr(descriptor)[3] & termios.ICANON, 20, lambda: "the client does not listen"
        )
        sized = b'until [ "$(stty size)" = "31 $((97))" ]; do sleep 0.1; done; '
        os.write(descriptor, sized + b"stty size; echo x$((40 + 2))y\n")
        assert "31 97" in _read_until(descriptor, "x42y")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(descriptor)


def test_attach_to_a_container_without_stdin_is_refused(agent: AgentProcess) -> None:
    refused = agent.cli("attach", "-i", "talk", "-c", "dumb")
    assert refused.returncode == 2
    assert "stdin: true" in refused.stderr


def test_port_forward_carries_many_connections_to_each_port(agent: AgentProcess, daemon: PrivateRuntime) -> None:
    # containerd asks the node's resolver for localhost, and that may know no IPv6.
    remotes = ("8080",) if daemon.name == "containerd" else ("8080", "8081")
    with _start(agent, "port-forward", "web", ":8080", ":8081", ":9") as process:
        assert process.stdout is not None
        said = _read_until(process.stdout.fileno(), "-> 9\n")
        ports = {remote: int(local) for local, remote in re.findall(r"127.0.0.1:(\d+) -> (\d+)", said)}
        for remote in remotes:
            for _ in range(3):
                with urllib.request.urlopen(f"http://127.0.0.1:{ports[remote]}/big", timeout=20 * PATIENCE) as answer:
                    assert answer.read() == b"y" * 300_000
        with socket.create_connection(("127.0.0.1", ports["9"]), timeout=20 * PATIENCE) as refused:
            assert refused.recv(1) == b""
        assert "9" in _read_until(process.stdout.fileno(), "refused")
        # One that fails does not harm the others.
        with urllib.request.urlopen(f"http://127.0.0.1:{ports['8080']}/small", timeout=20 * PATIENCE) as answer:
            assert answer.read() == b"hello\n"
        assert _end(process) == 130


def test_port_forward_into_the_nodes_network(agent: AgentProcess, daemon: PrivateRuntime) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        remote = listener.getsockname()[1]
        with _start(agent, "port-forward", "host", f":{remote}") as process:
            assert process.stdout is not None
            said = _read_until(process.stdout.fileno(), f"-> {remote}\n")
            found = re.search(r"127.0.0.1:(\d+)", said)
            assert found is not None
            with socket.create_connection(("127.0.0.1", int(found[1])), timeout=20 * PATIENCE) as client:
                listener.settimeout(20)
                server, _ = listener.accept()
                with server:
                    server.settimeout(20)
                    client.sendall(b"question")
                    assert server.recv(100) == b"question"
                    if daemon.name != "containerd":
                        # The client sends no more, but it still reads; containerd gives such a connection up.
                        client.shutdown(socket.SHUT_WR)
                        assert server.recv(100) == b""
                    server.sendall(b"answer")
                    assert client.recv(100) == b"answer"
                assert client.recv(100) == b""


def test_port_forward_to_missing_pod_fails(agent: AgentProcess) -> None:
    assert "pod 'missing' not found" in agent.cli("port-forward", "missing", "80").stderr
    assert agent.cli("port-forward", "web", "80:x").returncode == 2


def test_completion_of_pod_names(agent: AgentProcess) -> None:
    words = " ".join(cli_command(agent.socket, "attach", "ta")[-4:])
    asked = {"_PYKUBELET_COMPLETE": "bash_complete", "COMP_WORDS": f"pykubelet {words}", "COMP_CWORD": "4"}
    command = cli_command(agent.socket)[:3]
    done = subprocess.run(command, env=environment() | asked, capture_output=True, text=True, timeout=30 * PATIENCE)
    assert "talk-testnode" in done.stdout
