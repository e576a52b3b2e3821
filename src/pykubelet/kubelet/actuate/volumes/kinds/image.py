"""image: the content of an OCI image as a volume (KEP-4639). The runtime mounts it, so there is nothing to set up.

The image is pulled when a container that mounts it starts; the container shows the pull's errors.
"""

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.actuate.volumes.volume_types import SetUpRequest, VolumeAttributes, Work


class ImageVolume:
    """Plugin for image volumes."""

    name = "kubernetes.io/image"
    attributes = VolumeAttributes(read_only=True, selinux_relabel=False)

    def prepare(self, request: SetUpRequest) -> Work:
        source = request.volume.image
        assert source is not None
        if not source.reference:
            raise Invalid("invalid image volume: a reference is required")
        return Work(lambda: None, once=True)
