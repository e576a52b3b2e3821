"""Shutdown of ``pykubelet criserver`` on a signal or after the failure of a component, with anything hanging."""

import signal
from collections.abc import Iterator

import pytest

from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.patience import PATIENCE
from tests.faults.hanging import SCRIPT, started, wait_reached

pytestmark = [pytest.mark.root, pytest.mark.runtime]

STAGES = [
    "pykubelet.criserver.main:run_criserver",
    "pykubelet.criserver.main:open_images",
    "pykubelet.criserver.main:Server.recover",
    "pykubelet.criserver.main:Server.serve",
]
FAILING = """
import sys
from pykubelet.criserver.server import CriServer

async def fails(self):
    raise OSError("no part of it lives for ever")

CriServer.run = fails
"""


@pytest.fixture
def server(isolation: Isolation) -> Iterator[PrivateCriServer]:
    """A server that is not running."""
    made = PrivateCriServer(isolation.home / "h", f"{isolation.bridge}h", isolation.further_subnet("h"))
    made.write_configuration()
    yield made
    made.destroy()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("stage", STAGES)
def test_criserver_signalled_while_a_stage_waits_ends_well(
    stage: str, number: signal.Signals, server: PrivateCriServer
) -> None:
    with started(["-c", SCRIPT, stage, "waits", "criserver", "--config", str(server.config)]) as process:
        wait_reached(process)
        process.send_signal(number)
        output, _ = process.communicate(timeout=20 * PATIENCE)
        assert process.returncode == 0, output


@pytest.mark.parametrize(
    ("stage", "way"), [*((stage, "refuses") for stage in STAGES), (STAGES[1], "blocks"), (STAGES[3], "blocks")]
)
def test_criserver_signalled_while_a_stage_does_not_end_is_ended_by_force(
    stage: str, way: str, server: PrivateCriServer
) -> None:
    with started(["-c", SCRIPT, stage, way, "criserver", "--config", str(server.config)]) as process:
        wait_reached(process)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=20 * PATIENCE)
        assert process.returncode == 1, output
        assert "shutdown not finished: exiting by force" in output
        assert "criserver" in output


def test_criserver_whose_part_fails_while_another_hangs_is_ended_by_force(server: PrivateCriServer) -> None:
    stage = "pykubelet.criserver.main:trim_periodically"
    script = FAILING + SCRIPT
    with started(["-c", script, stage, "refuses", "criserver", "--config", str(server.config)]) as process:
        output, _ = process.communicate(timeout=40 * PATIENCE)
        assert process.returncode == 1, output
        assert "shutdown not finished: exiting by force" in output
        assert "upkeep" in output
