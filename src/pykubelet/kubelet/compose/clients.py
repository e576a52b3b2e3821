"""The clients of the container runtime."""

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.kubelet.actuate.cri import CriClient, CriOptions
from pykubelet.kubelet.actuate.cri.plan.runtime_lists import first_mountpoint
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.observe.eviction.signal_observer import ImageDisks
from pykubelet.kubelet.report.metrics import KubeletMetrics


class RuntimeClients(Struct, frozen=True, kw_only=True):
    """The clients of the runtime service and of the image service, which may have different sockets."""

    cri: CriClient
    image_cri: CriClient
    runtime_endpoint: str = ""
    image_endpoint: str = ""

    async def image_disks(self) -> ImageDisks:
        """Return paths on the file systems of images and of containers, as far as the runtime reports them."""
        info = await self.image_cri.image_fs_info()
        return ImageDisks(
            images=first_mountpoint(info.image_filesystems), containers=first_mountpoint(info.container_filesystems)
        )


def connect(settings: Settings, metrics: KubeletMetrics) -> RuntimeClients:
    """Build the clients; they connect at the first call."""
    options = CriOptions(request_timeout=settings.seconds(settings.config.runtime_request_timeout))
    options = replace(options, observe=metrics.calls.runtime_operation, meter=metrics.operations)
    image_endpoint = settings.image_endpoint or settings.runtime_endpoint
    return RuntimeClients(
        cri=CriClient.connect(settings.runtime_endpoint, options),
        image_cri=CriClient.connect(image_endpoint, options),
        runtime_endpoint=settings.runtime_endpoint,
        image_endpoint=image_endpoint,
    )
