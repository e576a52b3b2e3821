"""Facts about images: read from the runtime once."""

import pytest

from pykubelet.base.errors import NotFound
from pykubelet.testing.fake_cri import FakeImage
from tests.unit.kubelet.actuate.images.kit import KIND, Kit, container, pod


async def test_recently_found_image_is_not_looked_up_again(kit: Kit) -> None:
    image = kit.cri.add_image("app:1")
    manager = kit.manager()
    await manager.present(container("app:1"))
    await manager.present(container("absent:1"))
    kit.cri.log.clear()
    assert await manager.ensure(pod(), container("app:1"), KIND) == image.id
    assert kit.cri.calls("ImageStatus") == []
    await kit.clock.advance(1)
    await manager.ensure(pod(), container("app:1"), KIND)
    assert len(kit.cri.calls("ImageStatus")) == 1


async def test_facts_come_from_the_runtime_once(kit: Kit) -> None:
    kit.cri.add_image("app:1", FakeImage("sha256:1", [], size=77, uid=1000))
    manager = kit.manager()
    ref = await manager.ensure(pod(), container("app:1"), KIND)
    kit.cri.log.clear()
    facts = await manager.image_facts(ref)
    assert (facts.id, facts.uid, facts.username, facts.size) == ("sha256:1", 1000, "", 77)
    assert kit.cri.log == []
    with pytest.raises(NotFound, match="nope"):
        await manager.image_facts("nope")


async def test_an_image_that_names_its_user_has_no_uid(kit: Kit) -> None:
    kit.cri.add_image("app:1", FakeImage("sha256:1", [], username="daemon"))
    facts = await kit.manager().image_facts("app:1")
    assert (facts.uid, facts.username) == (None, "daemon")
