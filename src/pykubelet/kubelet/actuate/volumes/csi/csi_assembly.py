"""Composes the CSI components; called by ``actuate/assembly.py`` when there is an API server."""

from collections.abc import Callable, Coroutine

from msgspec import Struct

from pykubelet.base.concurrency.callbacks import Callbacks
from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.volumes.csi.csi_layout import CsiLayout
from pykubelet.kubelet.actuate.volumes.csi.csi_manager import CsiDeps, CsiVolumes
from pykubelet.kubelet.actuate.volumes.csi.csi_types import CsiConfig, CsiEvents
from pykubelet.kubelet.actuate.volumes.csi.driver_registry import DriverRegistry
from pykubelet.kubelet.actuate.volumes.csi.limit_updates import LimitUpdates
from pykubelet.kubelet.actuate.volumes.pod_directories import PodDirs
from pykubelet.kubelet.actuate.volumes.volume_interfaces import CsiObjects
from pykubelet.kubelet.actuate.volumes.volume_threads import BlockingJobs
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.reports.work_meter import WorkMeter


class CsiParts(Struct, frozen=True):
    """CSI components of the node: the driver registry and the volumes."""

    drivers: DriverRegistry
    volumes: CsiVolumes
    limits: LimitUpdates
    events: CsiEvents

    def parts(self) -> dict[str, Coroutine[None, None, None]]:
        """Core tasks by name, for the agent to run."""
        return {"csi-registry": self.drivers.run(), "csi-volumes": self.volumes.run(), "csi-limits": self.limits.run()}


class CsiContext(Struct, frozen=True, kw_only=True):
    """Node-wide inputs of the CSI components."""

    dirs: PodDirs
    node: str
    """Name of the node."""
    telemetry: Telemetry[WorkMeter]
    called: Callable[[str, str, str, Seconds], None]
    """Called after each call to a driver, with the values of `CsiEvents.called`."""


def build_csi(context: CsiContext, objects: CsiObjects, config: CsiConfig) -> CsiParts:
    """Create the components; their tasks do not run yet."""
    layout = CsiLayout(context.dirs)
    events = CsiEvents(called=Callbacks(context.called))
    drivers = DriverRegistry(
        directory=layout.registry, clock=context.telemetry.clock, timeout=config.call_timeout, events=events
    )
    blocking = BlockingJobs(config.call_timeout)
    volumes = CsiVolumes(
        CsiDeps(
            layout=layout,
            drivers=drivers,
            objects=objects,
            blocking=blocking,
            node=context.node,
            telemetry=context.telemetry,
            events=events,
        ),
        config,
    )
    limits = LimitUpdates(drivers=drivers, objects=objects, events=events, clock=context.telemetry.clock)
    return CsiParts(drivers, volumes, limits, events)
