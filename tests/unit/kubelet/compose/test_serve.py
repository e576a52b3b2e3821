"""The servers of the agent, as those who run it see them."""

import asyncio
import logging
from typing import Any
from unittest.mock import Mock

import pytest

from pykubelet.kubelet.compose.serve import Servers


def server() -> Any:
    return Mock(serving=asyncio.Event(), run=lambda: "task")


def servers(**fields: Any) -> Servers:
    without: dict[str, Any] = {"health": None, "kubelet_api": None, "checks": {"syncloop": lambda: None}}
    return Servers(**{"local": server(), **without, **fields})


async def test_agent_serves_when_all_of_its_servers_do() -> None:
    made = servers(health=server())
    waiting = asyncio.create_task(made.serving())
    made.local.serving.set()
    await asyncio.sleep(0)
    assert not waiting.done()
    assert made.health is not None
    made.health.serving.set()
    await waiting


async def test_only_servers_that_are_enabled_run() -> None:
    assert list(servers().parts()) == ["local-api"]
    every = servers(health=server(), kubelet_api=server())
    assert list(every.parts()) == ["local-api", "health-server", "kubelet-api"]


async def test_stuck_loop_and_lost_log_are_faults_of_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    assert servers().fault() is None
    assert servers(checks={"syncloop": lambda: "stuck"}).fault() == "stuck"
    closed = Mock(spec=logging.StreamHandler, stream=Mock(closed=True))
    monkeypatch.setattr(logging.getLogger(), "handlers", [closed])
    assert servers().fault() == "the log's stream is closed"
