"""secret: the keys of a Secret as files, in memory, so that nothing of it reaches a disk."""

from pykubelet.kubelet.actuate.volumes.kinds.content_volumes import (
    CONTENT_ATTRIBUTES,
    content_work,
    in_memory,
    read_secret,
)
from pykubelet.kubelet.actuate.volumes.volume_types import SetUpRequest, Work


class SecretVolume:
    """Plugin for secret volumes; the files are updated with the Secret."""

    name = "kubernetes.io/secret"
    attributes = CONTENT_ATTRIBUTES

    def prepare(self, request: SetUpRequest) -> Work:
        source = request.volume.secret
        assert source is not None
        payload = read_secret(
            request, source.secret_name, source.items, source.default_mode, optional=bool(source.optional)
        )
        return content_work(request, payload, in_memory)
