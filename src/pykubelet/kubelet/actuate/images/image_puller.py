"""One try to pull an image for a pod: back-off, events, timeline, and the records of what was pulled."""

from functools import partial

from pykubelet.base.errors import PykubeletError, Transient
from pykubelet.kubelet.actuate.images.image_interfaces import ImageMetrics
from pykubelet.kubelet.actuate.images.image_request import ImageRequest, RequestEvents
from pykubelet.kubelet.actuate.images.known_images import KnownImages
from pykubelet.kubelet.actuate.images.plan import pull_policy
from pykubelet.kubelet.actuate.images.plan.keyring import RegistryCredentials
from pykubelet.kubelet.actuate.images.pod_credentials import RequestCredentials
from pykubelet.kubelet.actuate.images.pull_backoff import PullBackoff
from pykubelet.kubelet.actuate.images.pull_errors import error_message, may_go_on
from pykubelet.kubelet.actuate.images.pull_queue import PullQueue, PullResult
from pykubelet.kubelet.actuate.images.pulled_images import PulledImages
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.reports.events import Reason
from pykubelet.kubelet.types.reports.timeline import Step
from pykubelet.pb import runtime_v1_pb2 as pb


class ImagePuller:
    """Has images pulled for pods, unless they are in back-off; each pull runs between an intent and a record."""

    def __init__(
        self,
        *,
        queue: PullQueue,
        backoff: PullBackoff,
        images: KnownImages,
        pulled: PulledImages,
        telemetry: Telemetry[ImageMetrics],
    ) -> None:
        self._queue = queue
        self._backoff = backoff
        self._images = images
        self._pulled = pulled
        self._clock = telemetry.clock
        self._events = RequestEvents(telemetry.events)
        self._timeline = telemetry.timeline

    async def pull(self, request: ImageRequest, spec: pb.ImageSpec, credentials: RequestCredentials) -> str:
        """Try to pull once; return the runtime's reference to the image. Raises `ImageError`."""
        self._check_back_off(request)
        self._events.normal(request, Reason.PULLING_IMAGE, f'Pulling image "{request.image}"')
        begin = self._clock.monotonic()
        result = await self._timed_pull(request, spec, credentials)
        total = self._clock.monotonic() - begin
        self._backoff.succeeded(request)
        message = pull_policy.pulled_message(request.image, result.took, total, result.size)
        self._events.normal(request, Reason.PULLED_IMAGE, message)
        return result.ref

    def _check_back_off(self, request: ImageRequest) -> None:
        error = self._backoff.waiting(request)
        if error is not None:
            message = pull_policy.back_off_message(request.image, "")
            self._events.normal(request, Reason.BACK_OFF_PULL_IMAGE, message)
            raise error

    async def _timed_pull(
        self, request: ImageRequest, spec: pb.ImageSpec, credentials: RequestCredentials
    ) -> PullResult:
        """Pull as a step of the timeline; a failure begins or extends the back-off."""
        uid = request.ref.uid
        failure = ""
        self._timeline.begin(uid, Step.PULL, request.container)
        try:
            return await self._recorded_pull(request, spec, await credentials.get())
        except PykubeletError as error:
            failure = error_message(error)
            message = f'Failed to pull image "{request.image}": {failure}'
            self._events.warning(request, Reason.FAILED_TO_PULL_IMAGE, message)
            raise self._backoff.failed(request, failure) from error
        finally:
            self._timeline.end(uid, Step.PULL, request.container, failure)

    async def _recorded_pull(
        self, request: ImageRequest, spec: pb.ImageSpec, credentials: tuple[RegistryCredentials, ...]
    ) -> PullResult:
        """Pull between an intent and a record. An intent stays if the runtime may go on with the pull."""
        await self._record_intent(request, spec)
        end_is_known = False
        try:
            without_owners = tuple(dict.fromkeys(credentials))
            result = await self._queue.pull(request, spec, without_owners)
            # Another pod's pull may have used the same user and password of another Secret.
            used = next((each for each in credentials if each == result.used), None)
            await self._pulled.succeeded(request.image, result.image_id, used)
            end_is_known = True
        except PykubeletError as error:
            if not may_go_on(error):
                end_is_known = True
                await self._pulled.failed(request.image)
            raise
        finally:
            if not end_is_known:
                self._pulled.unknown(request.image)
        return result

    async def _record_intent(self, request: ImageRequest, spec: pb.ImageSpec) -> None:
        # With the other policies it was looked for, and is not there or needs a pull to be used.
        not_looked_for = request.policy == pull_policy.ALWAYS
        present = partial(self._images.find_if_readable, spec) if not_looked_for else None
        try:
            await self._pulled.begin(request.image, present)
        except PykubeletError as error:
            what = f'Failed to record image pull intent for container image "{request.image}"'
            raise Transient(f"{what}: {error}") from error
