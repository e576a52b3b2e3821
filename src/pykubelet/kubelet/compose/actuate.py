"""Composition of the stage actuate with its neighbours; ``actuate/assembly.py`` composes the stage itself."""

from pykubelet.base.http.http_get import HttpGet, HttpGetter, with_defaults
from pykubelet.kubelet.actuate.assembly import ActuatorDeps, Actuators, build_actuators
from pykubelet.kubelet.compose.foundation import Foundation

_HOOK_AGENT = "kube-lifecycle/1.36"


class HookHttp:
    """HTTP GET for lifecycle hooks; the caller enforces the hook's deadline."""

    def __init__(self, getter: HttpGetter) -> None:
        self._getter = getter

    async def __call__(self, request: HttpGet) -> None:
        await self._getter.get(HttpGet(request.url, with_defaults(request.headers, _HOOK_AGENT)), None)


def build_actuate(foundation: Foundation) -> Actuators:
    """Build the stage. Raises Invalid for an invalid quantity or sysctl pattern."""
    access = foundation.access
    return build_actuators(
        foundation.settings,
        ActuatorDeps(
            cri=foundation.clients.cri,
            image_cri=foundation.clients.image_cri,
            objects=access.objects if access is not None else foundation.manifests.objects,
            http=HookHttp(foundation.http),
            cluster=access.objects if access is not None else None,
            pods=foundation.tables.pods.pods,
            telemetry=foundation.recorders.telemetry(foundation.recorders.metrics),
        ),
    )
