"""Fixtures of the test environment (``world.py``)."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from pykubelet.testing.fake_cri import FakeCriOptions
from tests.unit.kubelet.actuate.podruntime.world import World, make_world


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """An agent's pod runtime over a fake container runtime, in virtual time."""
    async with make_world(tmp_path) as made:
        yield made


@pytest_asyncio.fixture
async def plain_world(tmp_path: Path) -> AsyncIterator[World]:
    """The same over a runtime that tells sandboxes without their containers, and has no events."""
    async with make_world(tmp_path, FakeCriOptions(supports_events=False, write_logs=True)) as made:
        yield made
