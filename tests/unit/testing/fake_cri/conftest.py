from collections.abc import AsyncIterator

import pytest

from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.fake_cri import FakeCri


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def cri(clock: VirtualClock) -> AsyncIterator[FakeCri]:
    async with FakeCri(clock) as cri:
        cri.add_image("app:1")
        yield cri


@pytest.fixture
def client(cri: FakeCri) -> CriClient:
    return cri.client()
