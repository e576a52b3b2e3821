"""Fixtures of the tests of images."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.fake_cri import FakeCri
from tests.unit.kubelet.actuate.images.kit import Kit, Recorder, Secrets


@pytest.fixture
async def kit(tmp_path: Path) -> AsyncIterator[Kit]:
    clock = VirtualClock()
    async with FakeCri(clock) as cri:
        yield Kit(clock, cri, Recorder(), Secrets(), root=tmp_path / "root")
