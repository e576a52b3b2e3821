"""Back-off after failed pulls: when the next try may begin, and what the pod is told until then."""

from pykubelet.base.backoff import Backoff
from pykubelet.base.clock import Clock
from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.actuate_types import ImageError, ImageReason
from pykubelet.kubelet.actuate.images.image_request import ImageRequest
from pykubelet.kubelet.actuate.images.plan import pull_policy
from pykubelet.kubelet.types.ids import PodUID

_Key = tuple[PodUID, str]


class PullBackoff:
    """Delays from ``initial`` to ``maximum`` seconds, one series for each pod and image."""

    def __init__(self, initial: Seconds, maximum: Seconds, *, clock: Clock) -> None:
        self._clock = clock
        self._backoff = Backoff(initial, maximum)
        self._last_error: dict[_Key, str] = {}

    def waiting(self, request: ImageRequest) -> ImageError | None:
        """Return the error of a request that comes before the time of the next try; None: try now."""
        key = _key_of(request)
        now = self._clock.monotonic()
        remaining = self._backoff.remaining(key, now)
        if remaining <= 0:
            return None
        message = pull_policy.back_off_message(request.image, self._last_error.get(key, ""))
        return ImageError(ImageReason.IMAGE_PULL_BACK_OFF, message, transient=True, retry_at=now + remaining)

    def failed(self, request: ImageRequest, text: str) -> ImageError:
        """Record a failed pull with this error text; return the error with the time of the next try."""
        key = _key_of(request)
        now = self._clock.monotonic()
        self._drop_stale(now)
        reason, message = pull_policy.pull_failure(request.image, text)
        delay = self._backoff.next(key, now)
        self._last_error[key] = f"{reason}: {message}"
        return ImageError(reason, message, retry_at=now + delay)

    def succeeded(self, request: ImageRequest) -> None:
        """Record a pull: the next failure begins a new series."""
        self._drop(_key_of(request))

    def forget(self, uid: PodUID) -> None:
        """Drop the series of a pod."""
        for key in list(self._last_error):
            if key[0] == uid:
                self._drop(key)

    def _drop(self, key: _Key) -> None:
        self._backoff.reset(key)
        self._last_error.pop(key, None)

    def _drop_stale(self, now: Seconds) -> None:
        """Drop the series whose next delay would be the initial one anyway."""
        self._backoff.gc(now)
        for key in list(self._last_error):
            if not self._backoff.delay(key):
                del self._last_error[key]


def _key_of(request: ImageRequest) -> _Key:
    return (request.ref.uid, request.image)
