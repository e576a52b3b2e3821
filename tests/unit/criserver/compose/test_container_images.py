"""The image store as containers and sandboxes use it."""

import asyncio
from typing import Any
from unittest.mock import create_autospec

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import NotFound
from pykubelet.criserver.compose.container_images import ContainerImages
from pykubelet.criserver.images.image_manager import ImageManager
from pykubelet.criserver.images.image_types import ImageConfig, ImageRecord
from pykubelet.criserver.images.signatures import Trust
from pykubelet.criserver.storage import Snapshots, VolumeRequest
from pykubelet.criserver.types import ContainerID

C = ContainerID("c1")
CONFIG = ImageConfig(entrypoint=("app",), env=("A=1",), user="7", stop_signal="SIGINT", volumes=("/data",))
RECORD = ImageRecord("sha256:1", ("app:1",), ("app@sha256:2",), 5, CONFIG, (), "sha256:2")


class Rig:
    """The adapter over a store that has no image at first; a pull brings it."""

    def __init__(self) -> None:
        self.images: Any = create_autospec(ImageManager, instance=True)
        self.snapshots: Any = create_autospec(Snapshots, instance=True)
        self.trust: Any = create_autospec(Trust, instance=True)
        self.images.status.return_value = None
        self.images.pull.side_effect = self.pull
        self.adapter = ContainerImages(images=self.images, snapshots=self.snapshots, trust=self.trust)

    async def pull(self, reference: str) -> None:
        await asyncio.sleep(0)
        self.images.status.return_value = RECORD


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def test_missing_image_is_pulled_once_for_all_who_wait_and_each_use_is_checked(rig: Rig) -> None:
    found = await asyncio.gather(rig.adapter.ensure("app:1"), rig.adapter.ensure("app:1"))
    assert [each.id for each in found] == ["sha256:1", "sha256:1"]
    assert rig.images.pull.call_count == 1
    assert [each.args for each in rig.trust.check_use.call_args_list] == [(RECORD, "app:1")] * 2


def test_facts_of_an_image_are_those_of_its_configuration(rig: Rig) -> None:
    assert rig.adapter.find("app:1") is None
    rig.images.status.return_value = RECORD
    found = rig.adapter.find("app:1")
    assert found is not None
    assert (found.reference, found.user, found.stop_signal) == ("app@sha256:2", "7", "SIGINT")
    assert (found.defaults.entrypoint, found.volumes) == (("app",), ("/data",))
    rig.images.status.return_value = replace(RECORD, digests=())
    found = rig.adapter.find("app:1")
    assert found is not None and found.reference == "sha256:1"


async def test_image_that_was_removed_meanwhile_is_not_found(rig: Rig) -> None:
    with pytest.raises(NotFound, match="was removed meanwhile; pull it again"):
        await rig.adapter.prepare("sha256:1", C, None)


async def test_volumes_are_made_only_for_an_image_that_declares_some(rig: Rig) -> None:
    rig.images.status.return_value = RECORD
    image = rig.adapter.find("app:1")
    assert image is not None
    assert await rig.adapter.make_volumes(replace(image, volumes=()), C, covered=frozenset(), user=None) == {}
    assert not rig.snapshots.make_volumes.called
    await rig.adapter.make_volumes(image, C, covered=frozenset({"/x"}), user=None)
    rig.snapshots.make_volumes.assert_called_once_with(C, VolumeRequest(("/data",), frozenset({"/x"}), None))
