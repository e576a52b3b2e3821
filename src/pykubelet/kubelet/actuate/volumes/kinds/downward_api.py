"""downwardAPI: fields of the pod itself as files, in memory."""

from pykubelet.kubelet.actuate.volumes.kinds.content_volumes import CONTENT_ATTRIBUTES, content_work, in_memory
from pykubelet.kubelet.actuate.volumes.plan.payload import downward_payload
from pykubelet.kubelet.actuate.volumes.volume_types import SetUpRequest, Work


class DownwardApi:
    """Plugin for downwardAPI volumes; the files are updated with the pod's labels, annotations and resources."""

    name = "kubernetes.io/downward-api"
    attributes = CONTENT_ATTRIBUTES

    def prepare(self, request: SetUpRequest) -> Work:
        source = request.volume.downward_api
        assert source is not None
        payload = downward_payload(source.items, request.pod, source.default_mode, request.context.downward)
        return content_work(request, payload, in_memory)
