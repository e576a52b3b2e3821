"""Composition of the stage desired: sources of pods, their objects, and admission."""

from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from pykubelet.base.clock import Clock
from pykubelet.kubelet.actuate.assembly import Actuators
from pykubelet.kubelet.actuate.cgroups import swapping
from pykubelet.kubelet.compose.node.admission_node import AdmissionNode
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.control.sync.events import EventQueue, PodsAffected
from pykubelet.kubelet.control.workers import PodWorkers
from pykubelet.kubelet.desired.admission import Admission, AdmissionDeps
from pykubelet.kubelet.desired.manifest.manifest_types import ObjectKey
from pykubelet.kubelet.desired.objects import LocalObjects, Objects
from pykubelet.kubelet.desired.pods import PodManager
from pykubelet.kubelet.desired.sources import ManifestStates, PodMux, Sources, sources_config
from pykubelet.kubelet.report.metrics import KubeletMetrics
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.reports.events import EventRecorder
from pykubelet.kubelet.types.resources.resize import PendingResizes
from pykubelet.kubelet.types.updates import Source

if TYPE_CHECKING:
    from pykubelet.kubelet.compose.cluster.api_access import ApiAccess


class Manifests(Struct, frozen=True, kw_only=True):
    """The content of manifests besides pods."""

    objects: LocalObjects
    states: ManifestStates


def build_manifests(events: EventRecorder) -> Manifests:
    """Build the stores of what manifests contain."""
    return Manifests(objects=LocalObjects(), states=ManifestStates(events))


class PodSources(Struct, frozen=True, kw_only=True):
    """The sources of manifests, and the merge of all sources."""

    mux: PodMux
    sources: Sources


def build_sources(
    settings: Settings, *, manifests: Manifests, access: "ApiAccess | None", queue: EventQueue, clock: Clock
) -> PodSources:
    """Build the sources of the configuration; the mux expects the API server too if there is one."""
    config = sources_config(settings)
    names = config.names() | ({Source.API} if access is not None else frozenset())
    mux = PodMux(sources=names, sink=queue.post, clock=clock)
    return PodSources(
        mux=mux,
        sources=Sources(config=config, mux=mux, objects=manifests.objects, states=manifests.states, clock=clock),
    )


def post_changed_objects(objects: Objects, pods: PodManager, queue: EventQueue) -> None:
    """Post the pods that use a ConfigMap or Secret to the sync loop whenever it changes."""

    def changed(keys: frozenset[ObjectKey]) -> None:
        queue.post(PodsAffected(pods.using(keys)))

    objects.subscribe(changed)


def build_admission(
    *,
    node: AdmissionNode,
    workers: PodWorkers,
    actuators: Actuators,
    pending: PendingResizes,
    telemetry: Telemetry[KubeletMetrics],
) -> Admission:
    """Build admission. ``pending`` is the table of resizes that the statuses show."""
    return Admission(
        AdmissionDeps(
            node=node.node,
            sysctl_refusal=node.sysctl_refusal,
            active=workers.active,
            allocations=actuators.runtime.allocations,
            pending=pending,
            swapping=partial(swapping, policy=actuators.resources.policy),
            telemetry=telemetry,
        )
    )
