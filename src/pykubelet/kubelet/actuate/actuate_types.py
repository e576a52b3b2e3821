"""Values shared by the packages of this stage: mounts, facts about images, and their errors.

The image and volume managers create them; the pod runtime and ``cri_messages`` use them. This module imports no
manager, so that the packages stay independent of each other.
"""

from enum import StrEnum

from msgspec import Struct

from pykubelet.base.errors import PykubeletError, Transient
from pykubelet.base.units import Bytes, Seconds


class Propagation(StrEnum):
    """Mount propagation between host and container; values as in the API."""

    PRIVATE = "None"
    HOST_TO_CONTAINER = "HostToContainer"
    BIDIRECTIONAL = "Bidirectional"


class HostMount(Struct, frozen=True):
    """Mount of a container: the source, a path of the host or an image, and the path in the container.

    Either `host_path` or `image` is set; the latter for an image volume, which the runtime mounts itself.
    """

    container_path: str
    """Absolute path inside the container."""
    host_path: str = ""
    read_only: bool = False
    recursive_read_only: bool = False
    """Nested mounts are read-only too (KEP-3857); only with `read_only`."""
    propagation: Propagation = Propagation.PRIVATE
    selinux_relabel: bool = False
    """Whether the runtime relabels the content for the pod (SELinux)."""
    name: str = ""
    """Name of the volume; empty for files that the agent itself provides."""
    image: str = ""
    """The runtime's reference to the image of an image volume (CRI `ImageSpec.image`)."""
    user_specified_image: str = ""
    """The same image as in the pod's spec."""
    image_sub_path: str = ""
    """The directory of the image to mount; empty for its root."""


class ImageFacts(Struct, frozen=True):
    """Facts about an image from the runtime."""

    id: str
    uid: int | None = None
    """Numeric user of the image; None if the user is a name or not set."""
    username: str = ""
    """User of the image as a name; empty if it is numeric or not set."""
    size: Bytes = Bytes(0)
    repo_tags: tuple[str, ...] = ()
    repo_digests: tuple[str, ...] = ()


class ImageReason(StrEnum):
    """Waiting reasons of a container whose image is not available; names as in the Go kubelet."""

    ERR_IMAGE_PULL = "ErrImagePull"
    IMAGE_PULL_BACK_OFF = "ImagePullBackOff"
    ERR_IMAGE_NEVER_PULL = "ErrImageNeverPull"
    INVALID_IMAGE_NAME = "InvalidImageName"
    IMAGE_INSPECT_ERROR = "ImageInspectError"
    REGISTRY_UNAVAILABLE = "RegistryUnavailable"
    SIGNATURE_VALIDATION_FAILED = "SignatureValidationFailed"


class ImageError(PykubeletError):
    """The image is not available now.

    `reason` and `message` are shown in the container's waiting state. A `transient` error is over after waiting;
    `retry_at` (monotonic seconds) is the time of the next try, None if it is not known.
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
    """A volume of a pod cannot be set up or torn down now; the message names the volume and the remedy.

    The operation is always retried: a missing object, directory or device may appear.
    """

    def __init__(self, volume: str, message: str, retry_after: Seconds | None = None) -> None:
        super().__init__(message, retry_after)
        self.volume = volume
