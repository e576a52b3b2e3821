"""What the parts of this stage say to each other: mounts, facts about images, and their errors.

The managers of images and volumes make these values; the pod runtime and the builders of CRI messages use
them. Nothing here imports a manager, so the parts stay independent of each other.
"""

from dataclasses import dataclass
from enum import StrEnum

from pykubelet.base.errors import PykubeletError, Transient
from pykubelet.base.units import Bytes, Seconds


class Propagation(StrEnum):
    """How mounts made on one side of a mount show up on the other; values as in the API."""

    PRIVATE = "None"
    HOST_TO_CONTAINER = "HostToContainer"
    BIDIRECTIONAL = "Bidirectional"


@dataclass(frozen=True, slots=True)
class HostMount:
    """One mount of a container: a path of the host, or an image, and where it goes.

    Either `host_path` is set or `image` is: the latter is an image volume, which the runtime mounts itself.
    """

    container_path: str
    """Absolute path inside the container."""
    host_path: str = ""
    read_only: bool = False
    recursive_read_only: bool = False
    """Mounts below it are read-only too (KEP-3857); only with `read_only`."""
    propagation: Propagation = Propagation.PRIVATE
    selinux_relabel: bool = False
    """The runtime shall label the content for this pod."""
    name: str = ""
    """The volume it comes from; empty for files which the agent itself provides."""
    image: str = ""
    """Reference of an image volume as the runtime gave it (CRI `ImageSpec.image`)."""
    user_specified_image: str = ""
    """The same image as the pod names it."""
    image_sub_path: str = ""
    """The directory of the image to mount; empty for its root."""


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What the runtime says about an image that it has."""

    id: str
    uid: int | None = None
    """Numeric user the image runs as; None when it names a user or says nothing."""
    username: str = ""
    """User of the image as a name; empty when it is numeric or not set."""
    size: Bytes = Bytes(0)
    repo_tags: tuple[str, ...] = ()
    repo_digests: tuple[str, ...] = ()


class ImageReason(StrEnum):
    """Waiting reasons of a container whose image cannot be had (the reference's names)."""

    ERR_IMAGE_PULL = "ErrImagePull"
    IMAGE_PULL_BACK_OFF = "ImagePullBackOff"
    ERR_IMAGE_NEVER_PULL = "ErrImageNeverPull"
    INVALID_IMAGE_NAME = "InvalidImageName"
    IMAGE_INSPECT_ERROR = "ImageInspectError"
    REGISTRY_UNAVAILABLE = "RegistryUnavailable"
    SIGNATURE_VALIDATION_FAILED = "SignatureValidationFailed"


class ImageError(PykubeletError):
    """The image cannot be had now.

    `reason` and `message` are what the waiting container shows. With `transient` it mends by waiting;
    `retry_at` (monotonic seconds) is when a new try makes sense, None where no time is known.
    """

    def __init__(
        self, reason: ImageReason, message: str, *, transient: bool = False, retry_at: Seconds | None = None
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.transient = transient
        self.retry_at = retry_at


class VolumeError(Transient):
    """A volume of a pod cannot be set up or taken down now; the message names it and says what to do.

    Always worth another try: what is missing (an object, a directory, a device) may appear.
    """

    def __init__(self, volume: str, message: str, retry_after: Seconds | None = None) -> None:
        super().__init__(message, retry_after)
        self.volume = volume
