"""Makes sure that the image of a container, or of an image volume, is there before it is needed.

Called by the pod runtime before a container is created, and by the volume manager for image volumes.
"""

import asyncio
import logging
from collections import OrderedDict
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final

from grpc import StatusCode

from pykubelet.base.backoff import Backoff
from pykubelet.base.errors import Invalid, NotFound, PykubeletError, Transient
from pykubelet.base.units import Bytes, Seconds
from pykubelet.kubelet.actuate.cri.errors import CriError
from pykubelet.kubelet.actuate.images import decide
from pykubelet.kubelet.actuate.images.keyring import Credentials, keyring_of
from pykubelet.kubelet.actuate.images.limits import Shared, TokenBucket
from pykubelet.kubelet.actuate.images.reference import default_pull_policy, parse, with_default_tag
from pykubelet.kubelet.actuate.images.types import ImageConfig, ImageDeps, Pulled, Wanted
from pykubelet.kubelet.actuate.types import ImageError, ImageFacts, ImageReason
from pykubelet.kubelet.types.events import NORMAL, WARNING, Reason
from pykubelet.kubelet.types.ids import PodRef, PodUID, ref_of
from pykubelet.kubelet.types.podspec import AnyContainer
from pykubelet.kubelet.types.runtime import ContainerKind
from pykubelet.kubelet.types.timeline import Step
from pykubelet.models.core_v1 import Pod, Secret
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)

_REMEMBERED_FACTS: Final = 256
_JUST_SEEN: Final[Seconds] = 0.5
_NO_SECRET: Final = "FailedToRetrieveImagePullSecret"


class ImageManager:
    """Pulls by policy, with bounds and back-off; see `ImageConfig`. Safe to use from any task of the loop.

    Concurrent pulls of one image with the policy IfNotPresent and the same credentials are one pull. Policy
    Always keeps its own: its point is to ask the registry, with the pod's own credentials.
    """

    def __init__(self, deps: ImageDeps, config: ImageConfig | None = None) -> None:
        config = config or ImageConfig()
        self._runtime = deps.runtime
        self._secrets = deps.secrets
        self._events = deps.events
        self._timeline = deps.timeline
        self._clock = deps.clock
        self._pulled = deps.pulled
        self._backoff = Backoff(config.initial_back_off, config.maximum_back_off)
        self._last_error: dict[tuple[PodUID, str], str] = {}
        self._bucket = TokenBucket(config.registry_qps, config.registry_burst, deps.clock)
        self._slots: AbstractAsyncContextManager[None] = (
            asyncio.Semaphore(config.parallel) if config.parallel else nullcontext()
        )
        self._shared: Shared[Pulled] = Shared()
        self._facts: OrderedDict[str, ImageFacts] = OrderedDict()
        self._just_seen: dict[str, tuple[ImageFacts, Seconds]] = {}
        """Images that `present` has found, and until when that counts."""

    async def ensure(self, pod: Pod, container: AnyContainer, kind: ContainerKind) -> str:
        """Make the container's image present as its pull policy says; returns the runtime's reference to it.

        Raises `ImageError`; while a failed pull backs off, a transient one with the time of the next try.
        `kind` is not needed to find an image; it is there so that all per-container calls look alike.
        """
        policy = container.image_pull_policy or default_pull_policy(container.image)
        return await self._ensure(pod, Wanted(container.image, policy, container.name))

    async def present(self, container: AnyContainer) -> str | None:
        """What `ensure` would give without a pull, and nobody is told; None if it would pull. Raises base errors.

        An `ensure` right after it does not ask the runtime again.
        """
        if (container.image_pull_policy or default_pull_policy(container.image)) == decide.ALWAYS:
            return None
        name = with_default_tag(container.image)
        image = await self._runtime.image_status(pb.ImageSpec(image=name))
        if image is None:
            return None
        now, facts = self._clock.monotonic(), self._remember(image)
        self._just_seen = {other: seen for other, seen in self._just_seen.items() if seen[1] > now}
        self._just_seen[name] = (facts, now + _JUST_SEEN)
        return facts.id

    async def ensure_volume(self, pod: Pod, reference: str, policy: str) -> str:
        """The same for the image of an image volume (KEP-4639); an empty policy means the default."""
        return await self._ensure(pod, Wanted(reference, policy or default_pull_policy(reference)))

    async def image_facts(self, ref: str) -> ImageFacts:
        """What is known of an image by the reference that `ensure` gave. NotFound, or a `CriError`."""
        facts = self._facts.get(ref)
        if facts is None:
            image = await self._runtime.image_status(pb.ImageSpec(image=ref))
            if image is None:
                raise NotFound(f"image {ref} is not on this machine")
            facts = self._remember(image, ref)
        return facts

    def forget(self, uid: PodUID) -> None:
        """Drop the pod's back-off: it is gone, or its pulls shall be tried again at once."""
        for key in [key for key in self._last_error if key[0] == uid]:
            del self._last_error[key]
            self._backoff.reset(key)

    async def _ensure(self, pod: Pod, wanted: Wanted) -> str:
        ref = ref_of(pod)
        try:
            image = with_default_tag(wanted.image)
        except Invalid as error:
            message = f'Failed to apply default image tag "{wanted.image}": {error}'
            self._event(ref, wanted, WARNING, Reason.FAILED_TO_INSPECT_IMAGE, message)
            raise ImageError(ImageReason.INVALID_IMAGE_NAME, message) from error
        spec = pb.ImageSpec(image=image, annotations=dict(pod.metadata.annotations))
        present = None if wanted.policy == decide.ALWAYS else await self._inspect(ref, wanted, spec)
        match decide.step(wanted.policy, present is not None):
            case decide.Step.USE:
                assert present is not None
                self._event(ref, wanted, NORMAL, Reason.PULLED_IMAGE, decide.present_message(wanted.image))
                return present.id
            case decide.Step.REFUSE:
                message = decide.never_message(wanted.image)
                self._event(ref, wanted, WARNING, Reason.ERR_IMAGE_NEVER_PULL, message)
                raise ImageError(ImageReason.ERR_IMAGE_NEVER_PULL, message)
            case decide.Step.PULL:
                return await self._pull(pod, wanted, spec)

    async def _inspect(self, ref: PodRef, wanted: Wanted, spec: pb.ImageSpec) -> ImageFacts | None:
        facts, until = self._just_seen.get(spec.image, (None, 0.0))
        if facts is not None and self._clock.monotonic() < until:
            return facts
        try:
            image = await self._runtime.image_status(spec)
        except PykubeletError as error:
            message = f'Failed to inspect image "{spec.image}": {_words(error)}'
            self._event(ref, wanted, WARNING, Reason.FAILED_TO_INSPECT_IMAGE, message)
            transient = isinstance(error, Transient)
            raise ImageError(ImageReason.IMAGE_INSPECT_ERROR, message, transient=transient) from error
        return None if image is None else self._remember(image)

    async def _pull(self, pod: Pod, wanted: Wanted, spec: pb.ImageSpec) -> str:
        """One try, unless an earlier failure still backs off."""
        ref = ref_of(pod)
        key = (ref.uid, wanted.image)
        self._check_back_off(ref, wanted)
        self._event(ref, wanted, NORMAL, Reason.PULLING_IMAGE, f'Pulling image "{wanted.image}"')
        begin = self._clock.monotonic()
        self._timeline.begin(ref.uid, Step.PULL, wanted.container)
        text = ""
        try:
            credentials = self._credentials(pod, spec.image)
            pulled = await self._pull_shared(pod, wanted, spec, credentials)
        except PykubeletError as error:
            text = _words(error)
            event = f'Failed to pull image "{wanted.image}": {text}'
            self._event(ref, wanted, WARNING, Reason.FAILED_TO_PULL_IMAGE, event)
            raise self._back_off(key, text) from error
        finally:
            self._timeline.end(ref.uid, Step.PULL, wanted.container, text)
        total = self._clock.monotonic() - begin
        self._backoff.reset(key)
        self._last_error.pop(key, None)
        message = decide.pulled_message(wanted.image, pulled.took, total, pulled.size)
        self._event(ref, wanted, NORMAL, Reason.PULLED_IMAGE, message)
        return pulled.ref

    def _check_back_off(self, ref: PodRef, wanted: Wanted) -> None:
        key = (ref.uid, wanted.image)
        remaining = self._backoff.remaining(key, self._clock.monotonic())
        if remaining <= 0:
            return
        event = decide.back_off_message(wanted.image, "")
        self._event(ref, wanted, NORMAL, Reason.BACK_OFF_PULL_IMAGE, event)
        raise ImageError(
            ImageReason.IMAGE_PULL_BACK_OFF,
            decide.back_off_message(wanted.image, self._last_error.get(key, "")),
            transient=True,
            retry_at=self._clock.monotonic() + remaining,
        )

    def _back_off(self, key: tuple[PodUID, str], text: str) -> ImageError:
        """Note a failed pull; the error says when to try again."""
        now = self._clock.monotonic()
        self._backoff.gc(now)
        for old in [old for old in self._last_error if not self._backoff.delay(old)]:
            del self._last_error[old]
        reason, message = decide.pull_failure(key[1], text)
        delay = self._backoff.next(key, now)
        self._last_error[key] = f"{reason}: {message}"
        return ImageError(reason, message, retry_at=now + delay)

    async def _pull_shared(
        self, pod: Pod, wanted: Wanted, spec: pb.ImageSpec, credentials: tuple[Credentials, ...]
    ) -> Pulled:
        if wanted.policy == decide.ALWAYS:
            return await self._pull_once(pod, spec, credentials)
        key = (spec.image, credentials)
        return await self._shared.run(key, lambda: self._pull_once(pod, spec, credentials))

    async def _pull_once(self, pod: Pod, spec: pb.ImageSpec, credentials: tuple[Credentials, ...]) -> Pulled:
        """The pull itself, when its turn has come; each of the credentials is tried until one works."""
        async with self._slots:
            await self._bucket.take()
            begin = self._clock.monotonic()
            sandbox = _sandbox_of(pod)
            candidates: list[pb.AuthConfig | None] = [_auth(c) for c in credentials]
            errors: list[PykubeletError] = []
            for auth in candidates or [None]:
                try:
                    image_ref = await self._runtime.pull_image(spec, auth, sandbox)
                except PykubeletError as error:
                    errors.append(error)
                else:
                    size = await self._size(spec, image_ref)
                    seconds = self._clock.monotonic() - begin
                    self._pulled(seconds, size)
                    return Pulled(image_ref, size, seconds)
        if len(errors) == 1:
            raise errors[0]
        raise Transient("[" + ", ".join(dict.fromkeys(map(_words, errors))) + "]") from errors[-1]

    async def _size(self, spec: pb.ImageSpec, image_ref: str) -> Bytes:
        """Size of a fresh image for the event; a failure to learn it does not matter."""
        try:
            image = await self._runtime.image_status(spec)
        except PykubeletError as error:
            _log.debug("cannot read a fresh image's size", extra={"image": spec.image, "error": str(error)})
            return Bytes(0)
        return Bytes(0) if image is None else self._remember(image, image_ref).size

    def _credentials(self, pod: Pod, image: str) -> tuple[Credentials, ...]:
        """Candidates from the pod's pull secrets; Invalid if one has broken content."""
        secrets, missing = self._pull_secrets(pod)
        if missing:
            names = ", ".join(missing)
            message = (
                f"Unable to retrieve some image pull secrets ({names}); attempting to pull the image may not succeed."
            )
            self._events.event(ref_of(pod), WARNING, _NO_SECRET, message)
        return keyring_of(secrets).lookup(parse(image).repository) if secrets else ()

    def _pull_secrets(self, pod: Pod) -> tuple[list[Secret], list[str]]:
        found: list[Secret] = []
        missing: list[str] = []
        for reference in pod.spec.image_pull_secrets:
            if not reference.name:
                continue
            try:
                found.append(self._secrets.get_secret(ref_of(pod).namespace, reference.name))
            except PykubeletError as error:
                missing.append(reference.name)
                _log.info(
                    "a pull secret is missing",
                    extra={"pod": str(ref_of(pod)), "secret": reference.name, "error": str(error)},
                )
        return found, missing

    def _remember(self, image: pb.Image, *names: str) -> ImageFacts:
        """Keep the facts under the image's id, which never changes meaning, and the given references."""
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

    def _event(self, ref: PodRef, wanted: Wanted, event_type: str, reason: str, message: str) -> None:
        self._events.event(ref, event_type, reason, message, container=wanted.container)


def _words(error: PykubeletError) -> str:
    """What went wrong, in the runtime's own words where it was the runtime.

    UNKNOWN, which runtimes use for nearly everything, goes without a prefix; other codes are written as gRPC
    users know them.
    """
    if not isinstance(error, CriError):
        return str(error)
    if error.code is StatusCode.UNKNOWN:
        return error.details
    code = error.code.name.title().replace("_", "")
    return f"rpc error: code = {code} desc = {error.details}"


def _sandbox_of(pod: Pod) -> pb.PodSandboxConfig:
    """Tells the runtime for whom it pulls; some account a pull to the pod or keep policies by namespace."""
    ref = ref_of(pod)
    metadata = pb.PodSandboxMetadata(name=ref.name, uid=ref.uid, namespace=ref.namespace)
    return pb.PodSandboxConfig(metadata=metadata)


def _auth(credentials: Credentials) -> pb.AuthConfig:
    return pb.AuthConfig(username=credentials.username, password=credentials.password)
