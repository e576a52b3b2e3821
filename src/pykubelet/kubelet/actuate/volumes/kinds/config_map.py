"""configMap: the keys of a ConfigMap as files, on disk; ``content_volumes.py`` calls ``atomic_writer.py`` for them."""

from pykubelet.kubelet.actuate.volumes.kinds.content_volumes import (
    CONTENT_ATTRIBUTES,
    content_work,
    on_disk,
    read_config_map,
)
from pykubelet.kubelet.actuate.volumes.volume_types import SetUpRequest, Work


class ConfigMapVolume:
    """Plugin for configMap volumes; the files are updated with the ConfigMap."""

    name = "kubernetes.io/configmap"
    attributes = CONTENT_ATTRIBUTES

    def prepare(self, request: SetUpRequest) -> Work:
        source = request.volume.config_map
        assert source is not None
        payload = read_config_map(
            request, source.name, source.items, source.default_mode, optional=bool(source.optional)
        )
        return content_work(request, payload, on_disk)
