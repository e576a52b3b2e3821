"""The clients of the container runtime."""

from dataclasses import dataclass, replace

from pykubelet.kubelet.actuate.cri import CriClient, CriOptions
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.report.metrics import KubeletMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeClients:
    """The clients of the runtime service and of the image service, which may have different sockets."""

    cri: CriClient
    image_cri: CriClient
    runtime_endpoint: str = ""
    image_endpoint: str = ""

    async def image_path(self) -> str:
        """Return a path on the file system of the images; empty: the runtime does not report any."""
        info = await self.image_cri.image_fs_info()
        return next((fs.fs_id.mountpoint for fs in info.image_filesystems if fs.fs_id.mountpoint), "")


def connect(settings: Settings, metrics: KubeletMetrics) -> RuntimeClients:
    """Build the clients; they connect at the first call."""
    options = CriOptions(request_timeout=settings.seconds(settings.config.runtime_request_timeout))
    options = replace(options, observe=metrics.runtime_operation, meter=metrics.operations)
    image_endpoint = settings.image_endpoint or settings.runtime_endpoint
    return RuntimeClients(
        cri=CriClient.connect(settings.runtime_endpoint, options),
        image_cri=CriClient.connect(image_endpoint, options),
        runtime_endpoint=settings.runtime_endpoint,
        image_endpoint=image_endpoint,
    )
