"""Image manager: pulls the images of containers and image volumes by their pull policy.

Called by the pod runtime before a container is created, and by the volume manager for image volumes.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Final

from grpc import StatusCode

from pykubelet.base.backoff import Backoff
from pykubelet.base.concurrency.rate_limit import RateLimit
from pykubelet.base.concurrency.single_flight import SingleFlight
from pykubelet.base.errors import Invalid, NotFound, PykubeletError, Transient
from pykubelet.base.image_reference import default_pull_policy, parse, with_default_tag
from pykubelet.base.units import Bytes, Seconds
from pykubelet.kubelet.actuate.actuate_types import ImageError, ImageFacts, ImageReason
from pykubelet.kubelet.actuate.cri.errors import CriError
from pykubelet.kubelet.actuate.images.image_types import ImageConfig, ImageDeps, ImageRequest, Pulled, Wanted
from pykubelet.kubelet.actuate.images.plan import pull_policy
from pykubelet.kubelet.actuate.images.plan.keyring import RegistryCredentials, keyring_of
from pykubelet.kubelet.types.ids import PodRef, PodUID, ref_of
from pykubelet.kubelet.types.podspec import AnyContainer
from pykubelet.kubelet.types.reports.events import NORMAL, WARNING, Reason
from pykubelet.kubelet.types.reports.timeline import Step
from pykubelet.kubelet.types.runtime import ContainerKind
from pykubelet.models.core_v1 import Pod, Secret
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)

_REMEMBERED_FACTS: Final = 256
_RECENT_SECONDS: Final[Seconds] = 0.5
_LOST: Final = (StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED, StatusCode.CANCELLED)
_NO_SECRET: Final = "FailedToRetrieveImagePullSecret"


class ImageManager:
    """Pulls images by policy, with limits and back-off (`ImageConfig`). Any task of the loop may call it.

    Concurrent pulls of one image with the policy IfNotPresent and the same credentials are one pull. Policy
    Always pulls separately, since it has to ask the registry with the pod's own credentials.
    """

    def __init__(self, deps: ImageDeps, config: ImageConfig | None = None) -> None:
        config = config or ImageConfig()
        self._runtime = deps.runtime
        self._secrets = deps.secrets
        self._node = deps.node
        self._plugins = deps.plugins
        self._pulled = deps.pulled
        self._events = deps.telemetry.events
        self._timeline = deps.telemetry.timeline
        self._clock = deps.telemetry.clock
        self._metrics = deps.telemetry.metrics
        self._backoff = Backoff(config.initial_back_off, config.maximum_back_off)
        self._last_error: dict[tuple[PodUID, str], str] = {}
        self._bucket = RateLimit(config.registry_qps, config.registry_burst, clock=deps.telemetry.clock)
        self._parallel = config.parallel
        self._slots = _slots(config.parallel)
        self._shared: SingleFlight[Hashable, Pulled] = SingleFlight()
        self._facts: OrderedDict[str, ImageFacts] = OrderedDict()
        self._recently_found: dict[str, tuple[ImageFacts, Seconds]] = {}
        """Images that `present` has found, and until when the result is valid."""

    def reconfigure(self, config: ImageConfig) -> None:
        """Pull by these limits from now on; pulls that run or wait for a slot keep the former number of slots."""
        self._bucket.change(config.registry_qps, config.registry_burst)
        if config.parallel != self._parallel:
            self._parallel = config.parallel
            self._slots = _slots(config.parallel)

    async def ensure(self, pod: Pod, container: AnyContainer, kind: ContainerKind) -> str:
        """Pull the container's image if its policy requires it; return the runtime's reference to it.

        Raises `ImageError`; in back-off after a failed pull, a transient one with the time of the next try.
        `kind` is not used; all per-container calls have it.
        """
        policy = container.image_pull_policy or default_pull_policy(container.image)
        return await self._ensure(pod, Wanted(container.image, policy, container.name))

    async def present(self, container: AnyContainer) -> str | None:
        """Return what `ensure` would return without a pull; None if it would pull. Sends no events. Raises base errors.

        An `ensure` right after it does not call the runtime again.
        """
        if (container.image_pull_policy or default_pull_policy(container.image)) == pull_policy.ALWAYS:
            return None
        name = with_default_tag(container.image)
        image = await self._runtime.image_status(pb.ImageSpec(image=name))
        if image is None:
            return None
        now, facts = self._clock.monotonic(), self._remember(image)
        self._recently_found = {other: seen for other, seen in self._recently_found.items() if seen[1] > now}
        self._recently_found[name] = (facts, now + _RECENT_SECONDS)
        return facts.id

    async def ensure_volume(self, pod: Pod, reference: str, policy: str) -> str:
        """Like `ensure`, for the image of an image volume (KEP-4639); an empty policy means the default."""
        return await self._ensure(pod, Wanted(reference, policy or default_pull_policy(reference)))

    async def image_facts(self, ref: str) -> ImageFacts:
        """Facts about an image; ``ref`` is what `ensure` returned. Raises NotFound or a `CriError`."""
        facts = self._facts.get(ref)
        if facts is None:
            image = await self._runtime.image_status(pb.ImageSpec(image=ref))
            if image is None:
                raise NotFound(f"image {ref} is not on this machine")
            facts = self._remember(image, ref)
        return facts

    def forget(self, uid: PodUID) -> None:
        """Drop the pod's back-off: the pod was removed, or its pulls are to be retried at once."""
        for key in [key for key in self._last_error if key[0] == uid]:
            del self._last_error[key]
            self._backoff.reset(key)

    async def _ensure(self, pod: Pod, wanted: Wanted) -> str:
        known = ImageRequest()
        try:
            return await self._ensure_known(pod, wanted, known)
        finally:
            self._metrics.image_requested(wanted.policy, known.present, known.must_pull)

    async def _ensure_known(self, pod: Pod, wanted: Wanted, known: ImageRequest) -> str:
        ref = ref_of(pod)
        try:
            image = with_default_tag(wanted.image)
        except Invalid as error:
            message = f'Failed to apply default image tag "{wanted.image}": {error}'
            self._event(ref, wanted, WARNING, Reason.FAILED_TO_INSPECT_IMAGE, message)
            raise ImageError(ImageReason.INVALID_IMAGE_NAME, message) from error
        spec = pb.ImageSpec(image=image, annotations=dict(pod.metadata.annotations))
        present = None
        if wanted.policy != pull_policy.ALWAYS:
            present = await self._inspect(ref, wanted, spec)
            known.present = present is not None
        credentials = _Once(lambda: self._credentials(pod, image))
        if present is not None and await self._must_pull(wanted, present.id, credentials):
            present = None  # the pod is not told that it is there
        match pull_policy.step(wanted.policy, present is not None):
            case pull_policy.PullStep.USE:
                assert present is not None
                known.must_pull = False
                self._event(ref, wanted, NORMAL, Reason.PULLED_IMAGE, pull_policy.present_message(wanted.image))
                return present.id
            case pull_policy.PullStep.REFUSE:
                message = pull_policy.never_message(wanted.image)
                self._event(ref, wanted, WARNING, Reason.ERR_IMAGE_NEVER_PULL, message)
                raise ImageError(ImageReason.ERR_IMAGE_NEVER_PULL, message)
            case pull_policy.PullStep.PULL:
                known.must_pull = True
                return await self._pull(pod, wanted, spec, credentials)

    async def _must_pull(self, wanted: Wanted, ref: str, credentials: "_Once") -> bool:
        """Whether the pod has to show to the registry that it may use an image that is present (KEP-2535)."""
        try:
            return await self._pulled.must_pull(wanted.image, ref, credentials)
        except PykubeletError as error:  # of the pod's credentials: the pull reports it
            _log.info("credentials for a present image not read", extra={"image": wanted.image, "error": str(error)})
            return True

    async def _inspect(self, ref: PodRef, wanted: Wanted, spec: pb.ImageSpec) -> ImageFacts | None:
        facts, until = self._recently_found.get(spec.image, (None, 0.0))
        if facts is not None and self._clock.monotonic() < until:
            return facts
        try:
            image = await self._runtime.image_status(spec)
        except PykubeletError as error:
            message = f'Failed to inspect image "{spec.image}": {_error_message(error)}'
            self._event(ref, wanted, WARNING, Reason.FAILED_TO_INSPECT_IMAGE, message)
            transient = isinstance(error, Transient)
            raise ImageError(ImageReason.IMAGE_INSPECT_ERROR, message, transient=transient) from error
        return None if image is None else self._remember(image)

    async def _pull(self, pod: Pod, wanted: Wanted, spec: pb.ImageSpec, credentials: "_Once") -> str:
        """Try to pull once, unless the image is in back-off."""
        ref = ref_of(pod)
        key = (ref.uid, wanted.image)
        self._check_back_off(ref, wanted)
        self._event(ref, wanted, NORMAL, Reason.PULLING_IMAGE, f'Pulling image "{wanted.image}"')
        begin = self._clock.monotonic()
        self._timeline.begin(ref.uid, Step.PULL, wanted.container)
        text = ""
        try:
            pulled = await self._pull_recorded(pod, wanted, spec, await credentials())
        except PykubeletError as error:
            text = _error_message(error)
            event = f'Failed to pull image "{wanted.image}": {text}'
            self._event(ref, wanted, WARNING, Reason.FAILED_TO_PULL_IMAGE, event)
            raise self._back_off(key, text) from error
        finally:
            self._timeline.end(ref.uid, Step.PULL, wanted.container, text)
        total = self._clock.monotonic() - begin
        self._backoff.reset(key)
        self._last_error.pop(key, None)
        message = pull_policy.pulled_message(wanted.image, pulled.took, total, pulled.size)
        self._event(ref, wanted, NORMAL, Reason.PULLED_IMAGE, message)
        return pulled.ref

    def _check_back_off(self, ref: PodRef, wanted: Wanted) -> None:
        key = (ref.uid, wanted.image)
        remaining = self._backoff.remaining(key, self._clock.monotonic())
        if remaining <= 0:
            return
        event = pull_policy.back_off_message(wanted.image, "")
        self._event(ref, wanted, NORMAL, Reason.BACK_OFF_PULL_IMAGE, event)
        raise ImageError(
            ImageReason.IMAGE_PULL_BACK_OFF,
            pull_policy.back_off_message(wanted.image, self._last_error.get(key, "")),
            transient=True,
            retry_at=self._clock.monotonic() + remaining,
        )

    def _back_off(self, key: tuple[PodUID, str], text: str) -> ImageError:
        """Record a failed pull; return the error with the time of the next try."""
        now = self._clock.monotonic()
        self._backoff.gc(now)
        for old in [old for old in self._last_error if not self._backoff.delay(old)]:
            del self._last_error[old]
        reason, message = pull_policy.pull_failure(key[1], text)
        delay = self._backoff.next(key, now)
        self._last_error[key] = f"{reason}: {message}"
        return ImageError(reason, message, retry_at=now + delay)

    async def _pull_recorded(
        self, pod: Pod, wanted: Wanted, spec: pb.ImageSpec, credentials: tuple[RegistryCredentials, ...]
    ) -> Pulled:
        """Pull between an intent and a record. An intent stays if the runtime may go on with the pull."""
        try:
            # With the other policies it was looked for, and is not there or needs a pull to be used.
            looks = wanted.policy == pull_policy.ALWAYS
            await self._pulled.begin(wanted.image, partial(self._facts_of, spec) if looks else None)
        except PykubeletError as error:
            what = f'Failed to record image pull intent for container image "{wanted.image}"'
            raise Transient(f"{what}: {error}") from error
        ended = False
        try:
            pulled = await self._pull_shared(pod, wanted, spec, tuple(dict.fromkeys(credentials)))
            # Another pod's pull may have used the same user and password of another Secret.
            used = next((each for each in credentials if each == pulled.used), None)
            await self._pulled.succeeded(wanted.image, pulled.image_id, used)
            ended = True
        except PykubeletError as error:
            if not _may_go_on(error):
                ended = True
                await self._pulled.failed(wanted.image)
            raise
        finally:
            if not ended:
                self._pulled.unknown(wanted.image)
        return pulled

    async def _pull_shared(
        self, pod: Pod, wanted: Wanted, spec: pb.ImageSpec, credentials: tuple[RegistryCredentials, ...]
    ) -> Pulled:
        if wanted.policy == pull_policy.ALWAYS:
            return await self._pull_once(pod, spec, credentials)
        key = (spec.image, credentials)
        return await self._shared.run(key, lambda: self._pull_once(pod, spec, credentials))

    async def _pull_once(self, pod: Pod, spec: pb.ImageSpec, credentials: tuple[RegistryCredentials, ...]) -> Pulled:
        """Pull the image when a slot is free, with each of the credentials until one works.

        Pulls beyond `registryPullQPS` fail, as upstream, and are retried with back-off.
        """
        async with self._slots:
            if not self._bucket.try_take():
                raise Transient("pull QPS exceeded")
            begin = self._clock.monotonic()
            sandbox = _sandbox_of(pod)
            errors: list[PykubeletError] = []
            for used in credentials or (None,):
                try:
                    image_ref = await self._runtime.pull_image(spec, _auth(used), sandbox)
                except PykubeletError as error:
                    errors.append(error)
                else:
                    facts = await self._facts_of(spec, image_ref)
                    size, image_id = (facts.size, facts.id) if facts is not None else (Bytes(0), image_ref)
                    seconds = self._clock.monotonic() - begin
                    self._metrics.image_pulled(seconds, size)
                    return Pulled(image_ref, size, seconds, image_id, used)
        if len(errors) == 1:
            raise errors[0]
        raise Transient("[" + ", ".join(dict.fromkeys(map(_error_message, errors))) + "]") from errors[-1]

    async def _facts_of(self, spec: pb.ImageSpec, *names: str) -> ImageFacts | None:
        """Facts about an image, for the event and the records; None if it is not there or they cannot be read."""
        try:
            image = await self._runtime.image_status(spec)
        except PykubeletError as error:
            _log.debug("facts of an image not read", extra={"image": spec.image, "error": str(error)})
            return None
        return None if image is None else self._remember(image, *names)

    async def _credentials(self, pod: Pod, image: str) -> tuple[RegistryCredentials, ...]:
        """Candidates from the pod's pull secrets, then of the node's files, then of plugins, once for each owner.

        Raises Invalid for an invalid secret.
        """
        secrets, missing = self._pull_secrets(pod)
        if missing:
            names = ", ".join(missing)
            message = (
                f"Unable to retrieve some image pull secrets ({names}); attempting to pull the image may not succeed."
            )
            self._events.event(ref_of(pod), WARNING, _NO_SECRET, message)
        repository = parse(image).name
        own = keyring_of(secrets).lookup(repository) if secrets else ()
        node = await self._node.lookup(repository)
        return (*own, *node, *await self._plugins.lookup(pod, repository))

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
                extra = {"pod": str(ref_of(pod)), "secret": reference.name, "error": str(error)}
                _log.info("pull secret missing", extra=extra)
        return found, missing

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

    def _event(self, ref: PodRef, wanted: Wanted, event_type: str, reason: str, message: str) -> None:
        self._events.event(ref, event_type, reason, message, container=wanted.container)


class _Once:
    """The credentials of a pod for an image, looked up when they are first needed, and once."""

    def __init__(self, look_up: Callable[[], Awaitable[tuple[RegistryCredentials, ...]]]) -> None:
        self._look_up = look_up
        self._found: tuple[RegistryCredentials, ...] | None = None

    async def __call__(self) -> tuple[RegistryCredentials, ...]:
        if self._found is None:
            self._found = await self._look_up()
        return self._found


def _slots(parallel: int | None) -> AbstractAsyncContextManager[None]:
    return asyncio.Semaphore(parallel) if parallel else nullcontext()


def _may_go_on(error: PykubeletError) -> bool:
    """Whether a pull may still succeed after this error, since the connection to the runtime was lost."""
    causes = (error, error.__cause__)
    return any(isinstance(each, CriError) and each.code in _LOST for each in causes)


def _error_message(error: PykubeletError) -> str:
    """Error text for events; for an error of the runtime its own message.

    Codes other than UNKNOWN, which runtimes use for nearly everything, are added as a prefix as in Go.
    """
    if not isinstance(error, CriError):
        return str(error)
    if error.code is StatusCode.UNKNOWN:
        return error.details
    return f"rpc error: code = {error.code.name.title().replace('_', '')} desc = {error.details}"


def _sandbox_of(pod: Pod) -> pb.PodSandboxConfig:
    """Sandbox configuration with the pod's identity, for runtimes that account pulls to pods or namespaces."""
    ref = ref_of(pod)
    metadata = pb.PodSandboxMetadata(name=ref.name, uid=ref.uid, namespace=ref.namespace)
    return pb.PodSandboxConfig(metadata=metadata)


def _auth(credentials: RegistryCredentials | None) -> pb.AuthConfig | None:
    if credentials is None:
        return None
    user, password, token = credentials.username, credentials.password, credentials.identity_token
    return pb.AuthConfig(username=user, password=password, identity_token=token)
