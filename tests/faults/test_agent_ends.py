"""Shutdown of ``pykubelet run`` on a signal or after the failure of a component, with anything hanging."""

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.testing.free_ports import free_port
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.traces import remove_mounts
from tests.faults.hanging import SCRIPT, started, wait_reached

pytestmark = pytest.mark.root

SIGNALS = [signal.SIGINT, signal.SIGTERM]
STAGES = [
    "pykubelet.cli.commands.node.run:_agent",
    "pykubelet.cli.embedded_server:supervised",
    "pykubelet.kubelet.main:with_runtime_driver",
    "pykubelet.kubelet.main:make_ready",
    "pykubelet.kubelet.main:run_agent",
]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """The agent's directory; the agent makes its root directory a mount."""
    yield tmp_path
    remove_mounts(tmp_path)


def command(home: Path, port: int = 0, *, embedded: bool = False) -> list[str]:
    """Return the arguments of an agent below ``home``: with its own runtime server, or one that is not responding."""
    config = {
        "kind": "KubeletConfiguration",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "podLogsDir": str(home / "log"),
        "healthzPort": port,
        "enableServer": False,
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": ["none"],
    }
    (home / "config.yaml").write_text(json.dumps(config))
    another = [] if embedded else ["--container-runtime-endpoint", f"unix://{home}/none.sock"]
    return [
        *("run", "--manifests", str(home / "manifests"), "--config", str(home / "config.yaml")),
        *("--root-dir", str(home / "root"), "--run-dir", str(home / "run")),
        *("--container-log-dir", str(home / "links")),
        *another,
    ]


@pytest.mark.parametrize(
    ("stage", "number"), [*((stage, signal.SIGTERM) for stage in STAGES), (STAGES[2], signal.SIGINT)]
)
def test_run_signalled_while_a_stage_waits_ends_well(stage: str, number: signal.Signals, home: Path) -> None:
    with started(["-c", SCRIPT, stage, "waits", *command(home, embedded=stage == STAGES[1])]) as process:
        wait_reached(process)
        process.send_signal(number)
        output, _ = process.communicate(timeout=20 * PATIENCE)
        assert process.returncode == 0, output


@pytest.mark.parametrize(
    ("stage", "way"), [*((stage, "refuses") for stage in STAGES), (STAGES[1], "blocks"), (STAGES[4], "blocks")]
)
def test_run_signalled_while_a_stage_does_not_end_is_ended_by_force(stage: str, way: str, home: Path) -> None:
    with started(["-c", SCRIPT, stage, way, *command(home, embedded=stage == STAGES[1])]) as process:
        wait_reached(process)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=20 * PATIENCE)
        assert process.returncode == 1, output
        assert "shutdown not finished: exiting by force" in output
        assert "kubelet" in output


@pytest.mark.parametrize("number", SIGNALS)
def test_run_signalled_while_it_reads_its_configuration_ends(number: signal.Signals, home: Path) -> None:
    with started(["-c", SCRIPT, "pykubelet.kubelet.config.load:read_regular", "reads", *command(home)]) as process:
        wait_reached(process)
        process.send_signal(number)
        output, _ = process.communicate(timeout=20 * PATIENCE)
        assert process.returncode in (130, -number), output


def test_run_with_a_pipe_as_its_configuration_says_so_and_exits(home: Path) -> None:
    arguments = command(home)
    (home / "config.yaml").unlink()
    os.mkfifo(home / "config.yaml")
    with started(["-m", "pykubelet.cli", *arguments]) as process:
        output, _ = process.communicate(timeout=20 * PATIENCE)
        assert process.returncode == 2, output
        assert f"{home}/config.yaml: is a pipe, socket or device, not a regular file" in output


def test_client_that_connects_before_the_servers_serve_waits(home: Path) -> None:
    """It was refused before, for as long as the agent needed to start; one that cannot start refuses it."""
    port = free_port()
    with started(["-c", SCRIPT, STAGES[2], "waits", *command(home, port)]) as process:
        wait_reached(process)
        with socket.create_connection(("127.0.0.1", port), 20 * PATIENCE) as client:
            client.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate(timeout=20 * PATIENCE)
            assert process.returncode == 0, output
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 20 * PATIENCE)


@pytest.mark.parametrize("silent", [False, True], ids=["no runtime", "a silent runtime"])
def test_run_with_its_health_port_taken_says_so_and_exits(silent: bool, home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket(socket.AF_UNIX) as runtime:
        if silent:
            runtime.bind(str(home / "none.sock"))
            runtime.listen()
        with started(["-m", "pykubelet.cli", *command(home, taken.getsockname()[1])]) as process:
            output, _ = process.communicate(timeout=40 * PATIENCE)
            assert process.returncode == 1, output
            assert f"error: {home}/config.yaml:1:" in output
            assert "healthzPort: cannot listen on 127.0.0.1:" in output
            assert "stop the program that uses it, or choose another port" in output
