"""``pykubelet run`` ends at a signal, and when a part of it fails, whatever hangs at that moment."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pykubelet.testing.agent import environment
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.traces import remove_mounts

pytestmark = pytest.mark.root

SIGNALS = [signal.SIGINT, signal.SIGTERM]
STAGES = [
    "pykubelet.cli.run:_agent",
    "pykubelet.cli.run:beside",
    "pykubelet.kubelet.main:with_runtime_driver",
    "pykubelet.kubelet.main:make_ready",
    "pykubelet.kubelet.main:Kubelet.run",
]
SCRIPT = """
import asyncio, importlib, sys, time
from pykubelet.base import ending
from pykubelet.cli.app import main

stage, way = sys.argv[1:3]
ending.Ending.__init__.__defaults__ = (1.5,)

async def hangs(*args):
    print("reached", flush=True)
    while True:
        if way == "blocks":
            time.sleep(100)
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            if way == "waits":
                raise

class Hangs:
    def __init__(self, *args): pass
    async def __aenter__(self): await hangs()
    async def __aexit__(self, *args): pass

module, _, path = stage.partition(":")
owner = importlib.import_module(module)
*outer, name = path.split(".")
for each in outer:
    owner = getattr(owner, each)
setattr(owner, name, Hangs if name == "beside" else hangs)
del sys.argv[1:3]
main()
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """The agent's directory; the agent makes its root directory a mount."""
    yield tmp_path
    remove_mounts(tmp_path)


def command(home: Path, port: int = 0) -> list[str]:
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
    return [
        *("run", "--manifests", str(home / "manifests"), "--config", str(home / "config.yaml")),
        *("--root-dir", str(home / "root"), "--run-dir", str(home / "run")),
        *("--container-log-dir", str(home / "links")),
        *("--container-runtime-endpoint", f"unix://{home}/none.sock"),
    ]


@contextmanager
def started(arguments: list[str]) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment()
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("stage", "number"), [*((stage, signal.SIGTERM) for stage in STAGES), (STAGES[2], signal.SIGINT)]
)
def test_run_signalled_while_a_stage_waits_ends_well(stage: str, number: signal.Signals, home: Path) -> None:
    with started(["-c", SCRIPT, stage, "waits", *command(home)]) as process:
        assert process.stdout is not None
        while "reached" not in (line := process.stdout.readline()):
            assert line, "it ended before it came to that stage"
        process.send_signal(number)
        output, _ = process.communicate(timeout=20 * PATIENCE)
        assert process.returncode == 0, output


@pytest.mark.parametrize(
    ("stage", "way"), [*((stage, "refuses") for stage in STAGES), (STAGES[1], "blocks"), (STAGES[4], "blocks")]
)
def test_run_signalled_while_a_stage_does_not_end_is_ended_by_force(stage: str, way: str, home: Path) -> None:
    with started(["-c", SCRIPT, stage, way, *command(home)]) as process:
        assert process.stdout is not None
        while "reached" not in (line := process.stdout.readline()):
            assert line, "it ended before it came to that stage"
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=20 * PATIENCE)
        assert process.returncode == 1, output
        assert "ended by force: something does not end" in output
        assert "kubelet" in output


@pytest.mark.parametrize("number", SIGNALS)
def test_run_signalled_while_it_reads_its_configuration_ends(number: signal.Signals, home: Path) -> None:
    arguments = command(home)
    (home / "config.yaml").unlink()
    os.mkfifo(home / "config.yaml")
    with started(["-m", "pykubelet.cli", *arguments]) as process:
        # The writer's open returns when the reader has come; what it waits for then never comes.
        writer = os.open(home / "config.yaml", os.O_WRONLY)
        try:
            process.send_signal(number)
            process.communicate(timeout=20 * PATIENCE)
        finally:
            os.close(writer)
        assert process.returncode in (130, -number)


@pytest.mark.parametrize("silent", [False, True], ids=["no runtime", "a silent runtime"])
def test_run_with_its_health_port_taken_says_so_and_exits(silent: bool, home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket(socket.AF_UNIX) as runtime:
        if silent:
            runtime.bind(str(home / "none.sock"))
            runtime.listen()
        with started(["-m", "pykubelet.cli", *command(home, taken.getsockname()[1])]) as process:
            output, _ = process.communicate(timeout=40 * PATIENCE)
            assert process.returncode == 1, output
            assert "error: cannot listen on 127.0.0.1:" in output
            assert "set healthzPort to a free port" in output
