"""Pulls that unpack what they fetch: layers that need those below, and layers of others."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from pykubelet.base.clock import SystemClock
from pykubelet.criserver.images.image_types import ImageRecord
from pykubelet.criserver.images.registry import RegistryClient
from tests.unit.criserver.images.fakeregistry import FakeRegistry, digest
from tests.unit.criserver.images.stores import Stores, open_stores
from tests.unit.criserver.storage.world import directory, entry, tar

pytestmark = [pytest.mark.root, pytest.mark.timeout(60)]


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    return open_stores(tmp_path / "root", RegistryClient(hosts=dict, clock=SystemClock()))


def _add(registry: FakeRegistry, name: str, *layers: bytes) -> str:
    registry.add_image(name, list(layers), [digest(layer) for layer in layers])
    return f"{registry.host}/{name}"


def _files(stores: Stores, image: ImageRecord) -> list[Path]:
    metas = [stores.layers.get(chain) for chain in image.layers]
    return [stores.layers.directory / str(meta.directory) for meta in metas if meta is not None]


async def test_layer_that_needs_one_below_waits_until_that_is_fetched(registry: FakeRegistry, stores: Stores) -> None:
    """As a layer does that has no entries for the directories of its files; small ones are often fetched first."""
    below, above = tar([directory("etc", 0o711)]), tar([entry("etc/own")])
    name = _add(registry, "app:1", below, above)
    registry.delay = {digest(below): 1.0}
    image = await stores.images.pull(name)
    assert (_files(stores, image)[1] / "etc").stat().st_mode & 0o777 == 0o711
