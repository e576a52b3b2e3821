"""The runtime's facts about its images: read once, and remembered where they cannot change."""

import logging
from collections import OrderedDict
from typing import Final

from pykubelet.base.clock import Clock
from pykubelet.base.errors import NotFound, PykubeletError
from pykubelet.base.units import Bytes, Seconds
from pykubelet.kubelet.actuate.actuate_types import ImageFacts
from pykubelet.kubelet.actuate.images.image_interfaces import ImageService
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)

_REMEMBERED_FACTS: Final = 256
_RECENT_SECONDS: Final[Seconds] = 0.5


class KnownImages:
    """Reads images from the runtime. Methods raise base errors where they do not say otherwise."""

    def __init__(self, runtime: ImageService, clock: Clock) -> None:
        self._runtime = runtime
        self._clock = clock
        self._facts: OrderedDict[str, ImageFacts] = OrderedDict()
        """By the image's id, and by the references under which it was asked for; the last used one is the last."""
        self._recently_found: dict[str, tuple[ImageFacts, Seconds]] = {}
        """Images that `find_ahead` has found, and until when the result is valid."""

    async def facts(self, ref: str) -> ImageFacts:
        """Facts about the image with this reference of the runtime, if possible without a call. NotFound: no image."""
        facts = self._facts.get(ref)
        if facts is None:
            facts = await self.find(pb.ImageSpec(image=ref), ref)
        if facts is None:
            raise NotFound(f"image {ref} is not on this machine")
        return facts

    async def find(self, spec: pb.ImageSpec, *names: str) -> ImageFacts | None:
        """Read an image from the runtime, and remember it, also under these names; None if it is not there."""
        image = await self._runtime.image_status(spec)
        if image is None:
            return None
        return self._remember(image, *names)

    async def find_if_readable(self, spec: pb.ImageSpec, *names: str) -> ImageFacts | None:
        """Like `find`, but None if the image cannot be read. Never raises."""
        try:
            return await self.find(spec, *names)
        except PykubeletError as error:
            _log.debug("facts of an image not read", extra={"image": spec.image, "error": str(error)})
            return None

    async def find_early(self, name: str) -> ImageFacts | None:
        """Like `find`; a `find_recent` right after it does not call the runtime again."""
        facts = await self.find(pb.ImageSpec(image=name))
        if facts is None:
            return None
        now = self._clock.monotonic()
        for other, (_, valid_until) in list(self._recently_found.items()):
            if valid_until <= now:
                del self._recently_found[other]
        self._recently_found[name] = (facts, now + _RECENT_SECONDS)
        return facts

    async def find_recent(self, spec: pb.ImageSpec) -> ImageFacts | None:
        """Like `find`, without a call if `find_ahead` has found the image a moment ago."""
        if spec.image in self._recently_found:
            facts, valid_until = self._recently_found[spec.image]
            if self._clock.monotonic() < valid_until:
                return facts
        return await self.find(spec)

    def _remember(self, image: pb.Image, *names: str) -> ImageFacts:
        """Cache the facts under the image's id, which is immutable, and the given references."""
        facts = ImageFacts(
            id=image.id,
            uid=image.uid.value if image.HasField("uid") else None,
            username=image.username,
            size=Bytes(image.size),
            repo_tags=tuple(image.repo_tags),
            repo_digests=tuple(image.repo_digests),
        )
        for name in (image.id, *names):
            self._facts[name] = facts
            self._facts.move_to_end(name)
        while len(self._facts) > _REMEMBERED_FACTS:
            self._facts.popitem(last=False)
        return facts
