"""Composition of the stage actuate with its neighbours; ``actuate/assembly.py`` composes the stage itself."""

from typing import TYPE_CHECKING

from pykubelet.base.http.http_get import HttpGetter
from pykubelet.kubelet.actuate.assembly import ActuatorDeps, Actuators, build_actuators
from pykubelet.kubelet.compose.adapters import HookHttp
from pykubelet.kubelet.compose.clients import RuntimeClients
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.desired.objects import Objects
from pykubelet.kubelet.desired.pods import PodManager
from pykubelet.kubelet.report.metrics import KubeletMetrics
from pykubelet.kubelet.telemetry import Telemetry

if TYPE_CHECKING:
    from pykubelet.kubelet.compose.cluster.api_access import ApiAccess


def build_actuate(
    settings: Settings,
    *,
    clients: RuntimeClients,
    local: Objects,
    access: "ApiAccess | None",
    http: HttpGetter,
    pods: PodManager,
    telemetry: Telemetry[KubeletMetrics],
) -> Actuators:
    """Build the stage. ``local`` has the objects of manifests; ``access`` is None without a cluster.

    Raises Invalid for an invalid quantity or sysctl pattern.
    """
    return build_actuators(
        settings,
        ActuatorDeps(
            cri=clients.cri,
            image_cri=clients.image_cri,
            objects=access.objects if access is not None else local,
            http=HookHttp(http),
            cluster=access.objects if access is not None else None,
            pods=pods.pods,
            telemetry=telemetry,
        ),
    )
