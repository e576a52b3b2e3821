"""Pull policy, reasons and messages of images. Pure.

Reasons and messages are those of the Go kubelet (`pkg/kubelet/images`), since users and scripts search for them.
"""

from enum import Enum, auto
from typing import Final

from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.actuate_types import ImageReason
from pykubelet.kubelet.types.reports.events import SUCCESSFULLY_PULLED

ALWAYS: Final = "Always"
NEVER: Final = "Never"

_REGISTRY_UNAVAILABLE: Final = "RegistryUnavailable"
_SIGNATURE_FAILED: Final = "SignatureValidationFailed"


class PullStep(Enum):
    """The step to take with an image, by policy and presence."""

    USE = auto()
    PULL = auto()
    REFUSE = auto()


def step(policy: str, present: bool) -> PullStep:
    """Apply a pull policy; `present` does not matter for Always."""
    if policy == ALWAYS:
        return PullStep.PULL
    if present:
        return PullStep.USE
    return PullStep.REFUSE if policy == NEVER else PullStep.PULL


def pull_failure(image: str, text: str) -> tuple[ImageReason, str]:
    """Reason and message for the runtime's error text of a failed pull.

    Runtimes mark two kinds of failure by a prefix of the text (cri-api `pkg/errors`).
    """
    if text.startswith(_REGISTRY_UNAVAILABLE):
        rest = text.removeprefix(_REGISTRY_UNAVAILABLE)
        message = f"image pull failed for {image} because the registry is unavailable{rest}"
        return ImageReason.REGISTRY_UNAVAILABLE, message
    if text.startswith(_SIGNATURE_FAILED):
        rest = text.removeprefix(_SIGNATURE_FAILED)
        message = f"image pull failed for {image} because the signature validation failed{rest}"
        return ImageReason.SIGNATURE_VALIDATION_FAILED, message
    return ImageReason.ERR_IMAGE_PULL, text


def back_off_message(image: str, previous: str) -> str:
    """Waiting message of a container in pull back-off; `previous` is the last pull error, if known."""
    message = f'Back-off pulling image "{image}"'
    return f"{message}: {previous}" if previous else message


def pulled_message(image: str, pull: Seconds, total: Seconds, size: int) -> str:
    """Event text after a pull; `total` includes the time spent waiting for a pull slot."""
    return (
        f'{SUCCESSFULLY_PULLED} "{image}" in {duration(pull)} ({duration(total)} including waiting). '
        f"Image size: {size} bytes."
    )


def present_message(image: str) -> str:
    return f'Container image "{image}" already present on machine and can be accessed by the pod'


def never_message(image: str) -> str:
    return f'Container image "{image}" is not present with pull policy of Never'


def duration(seconds: Seconds) -> str:
    """Format a duration, cut to milliseconds, as Go does: `850ms`, `1.5s`, `2m0.25s`, `1h0m3s`."""
    milliseconds = int(seconds * 1000)
    if milliseconds <= 0:
        return "0s"
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    whole, part = divmod(milliseconds, 1000)
    minutes, whole = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    text = f"{whole}.{part:03d}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text
