"""Image manager: makes the images of containers and image volumes available by their pull policy.

Called by the pod runtime before a container is created, and by the volume manager for image volumes. What is here
decides whether to pull. ``image_puller.py`` makes one try, with its events and records; ``pull_queue.py`` calls the
runtime, when a slot is free.
"""

import logging

from pykubelet.base.errors import Invalid, PykubeletError, Transient
from pykubelet.base.image_reference import MAX_LENGTH, default_pull_policy, with_default_tag
from pykubelet.base.text import cut
from pykubelet.kubelet.actuate.actuate_types import ImageError, ImageFacts, ImageReason
from pykubelet.kubelet.actuate.images.image_puller import ImagePuller
from pykubelet.kubelet.actuate.images.image_request import ImageRequest, RequestEvents, RequestFindings
from pykubelet.kubelet.actuate.images.image_types import ImageConfig, ImageDeps
from pykubelet.kubelet.actuate.images.known_images import KnownImages
from pykubelet.kubelet.actuate.images.plan import pull_policy
from pykubelet.kubelet.actuate.images.pod_credentials import PodCredentials, RequestCredentials
from pykubelet.kubelet.actuate.images.pull_backoff import PullBackoff
from pykubelet.kubelet.actuate.images.pull_errors import error_message
from pykubelet.kubelet.actuate.images.pull_queue import PullQueue
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.podspec import AnyContainer
from pykubelet.kubelet.types.reports.events import Reason
from pykubelet.kubelet.types.runtime import ContainerKind
from pykubelet.models.core_v1 import Pod
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)


class ImageManager:
    """Has images pulled by policy, with limits and back-off (`ImageConfig`). Any task of the loop may call it."""

    def __init__(self, deps: ImageDeps, config: ImageConfig | None = None) -> None:
        config = config or ImageConfig()
        telemetry = deps.telemetry
        self._pulled = deps.pulled
        self._events = RequestEvents(telemetry.events)
        self._metrics = telemetry.metrics
        self._images = KnownImages(deps.runtime, telemetry.clock)
        self._credentials = PodCredentials(
            secrets=deps.secrets, node=deps.node, plugins=deps.plugins, events=telemetry.events
        )
        self._backoff = PullBackoff(config.initial_back_off, config.maximum_back_off, clock=telemetry.clock)
        self._queue = PullQueue(deps.runtime, self._images, config=config, telemetry=telemetry)
        self._puller = ImagePuller(
            queue=self._queue,
            backoff=self._backoff,
            images=self._images,
            pulled=deps.pulled,
            telemetry=telemetry,
        )

    def reconfigure(self, config: ImageConfig) -> None:
        """Pull by these limits from now on; pulls that run or wait for a slot keep the former number of slots."""
        self._queue.reconfigure(config)

    async def ensure(self, pod: Pod, container: AnyContainer, kind: ContainerKind) -> str:
        """Pull the container's image if its policy requires it; return the runtime's reference to it.

        Raises `ImageError`; in back-off after a failed pull, a transient one with the time of the next try.
        `kind` is not used; all per-container calls have it.
        """
        request = ImageRequest(
            pod=pod,
            image=container.image,
            policy=_policy_of(container),
            container=container.name,
        )
        return await self._ensure(request)

    async def ensure_volume(self, pod: Pod, reference: str, policy: str) -> str:
        """Like `ensure`, for the image of an image volume (KEP-4639); an empty policy means the default."""
        return await self._ensure(
            ImageRequest(pod=pod, image=reference, policy=policy or default_pull_policy(reference))
        )

    async def present(self, container: AnyContainer) -> str | None:
        """Return the runtime's reference to the image if it is there and the policy needs no pull, else None.

        For looking ahead: whether the pod may use the image without a pull (KEP-2535) is decided by `ensure`, which
        does not call the runtime again right after it. Sends no events. Raises base errors.
        """
        if _policy_of(container) == pull_policy.ALWAYS:
            return None
        facts = await self._images.find_early(with_default_tag(container.image))
        return None if facts is None else facts.id

    async def image_facts(self, ref: str) -> ImageFacts:
        """Facts about an image; ``ref`` is what `ensure` returned. Raises NotFound or a `CriError`."""
        return await self._images.facts(ref)

    def forget(self, uid: PodUID) -> None:
        """Drop the pod's back-off: the pod was removed, or its pulls are to be retried at once."""
        self._backoff.forget(uid)

    async def _ensure(self, request: ImageRequest) -> str:
        """Ensure the image, and count the request with what was found out, however it ends."""
        findings = RequestFindings()
        try:
            return await self._use_or_pull(request, findings)
        finally:
            self._metrics.image_requested(request.policy, findings.present, findings.must_pull)

    async def _use_or_pull(self, request: ImageRequest, findings: RequestFindings) -> str:
        spec = self._spec(request)
        credentials = self._credentials.for_image(request.pod, spec.image)
        usable: ImageFacts | None = None
        if request.policy != pull_policy.ALWAYS:
            present = await self._inspect(request, spec)
            findings.present = present is not None
            if present is not None and not await self._must_pull(request, present.id, credentials):
                usable = present
        match pull_policy.step(request.policy, usable is not None):
            case pull_policy.PullStep.USE:
                assert usable is not None
                findings.must_pull = False
                self._events.normal(request, Reason.PULLED_IMAGE, pull_policy.present_message(request.image))
                return usable.id
            case pull_policy.PullStep.REFUSE:
                message = pull_policy.never_message(request.image)
                self._events.warning(request, Reason.ERR_IMAGE_NEVER_PULL, message)
                raise ImageError(ImageReason.ERR_IMAGE_NEVER_PULL, message)
            case pull_policy.PullStep.PULL:
                findings.must_pull = True
                return await self._puller.pull(request, spec, credentials)

    def _spec(self, request: ImageRequest) -> pb.ImageSpec:
        """Return the image as the runtime is asked for it. Raises `ImageError` for an invalid name."""
        try:
            image = with_default_tag(request.image)
        except Invalid as error:
            message = f'Failed to apply default image tag "{cut(request.image, MAX_LENGTH)}": {error}'
            self._events.warning(request, Reason.FAILED_TO_INSPECT_IMAGE, message)
            raise ImageError(ImageReason.INVALID_IMAGE_NAME, message) from error
        return pb.ImageSpec(image=image, annotations=dict(request.pod.metadata.annotations))

    async def _inspect(self, request: ImageRequest, spec: pb.ImageSpec) -> ImageFacts | None:
        """Return facts about the image if it is present. Raises `ImageError`."""
        try:
            return await self._images.find_recent(spec)
        except PykubeletError as error:
            message = f'Failed to inspect image "{spec.image}": {error_message(error)}'
            self._events.warning(request, Reason.FAILED_TO_INSPECT_IMAGE, message)
            transient = isinstance(error, Transient)
            raise ImageError(ImageReason.IMAGE_INSPECT_ERROR, message, transient=transient) from error

    async def _must_pull(self, request: ImageRequest, ref: str, credentials: RequestCredentials) -> bool:
        """Whether the pod has to show to the registry that it may use an image that is present (KEP-2535)."""
        try:
            return await self._pulled.must_pull(request.image, ref, credentials.get)
        except PykubeletError as error:  # of the pod's credentials: the pull reports it
            _log.info("credentials for a present image not read", extra={"image": request.image, "error": str(error)})
            return True


def _policy_of(container: AnyContainer) -> str:
    return container.image_pull_policy or default_pull_policy(container.image)
