"""Settings and dependencies of the image manager."""

from typing import Final

from msgspec import Struct

from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.images.credential_plugins import CredentialPlugins
from pykubelet.kubelet.actuate.images.image_interfaces import ImageMetrics, ImageService, Secrets
from pykubelet.kubelet.actuate.images.node_credentials import NodeCredentials
from pykubelet.kubelet.actuate.images.pulled_images import PulledImages
from pykubelet.kubelet.telemetry import Telemetry

DEFAULT_PARALLEL_PULLS: Final = 5


class ImageConfig(Struct, frozen=True):
    """Pull settings of KubeletConfiguration.

    Unlike the Go kubelet, which pulls one image at a time, the default is five.
    """

    parallel: int | None = DEFAULT_PARALLEL_PULLS
    """Maximum number of concurrent pulls; None: no limit."""
    registry_qps: float = 5
    """Pulls per second; 0: no limit."""
    registry_burst: int = 10
    initial_back_off: Seconds = 10
    maximum_back_off: Seconds = 300


class ImageDeps(Struct, frozen=True, kw_only=True):
    """Dependencies of the image manager."""

    runtime: ImageService
    secrets: Secrets
    node: NodeCredentials
    plugins: CredentialPlugins
    pulled: PulledImages
    telemetry: Telemetry[ImageMetrics]
