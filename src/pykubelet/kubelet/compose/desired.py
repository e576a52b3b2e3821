"""Composition of the stage desired: the sources of manifests, admission, and changes of the objects that pods use.

The desired pods, the merge of all sources and the objects of manifests are part of the foundation.
"""

from collections.abc import Callable
from functools import partial

from msgspec import Struct

from pykubelet.kubelet.actuate.assembly import Actuators
from pykubelet.kubelet.actuate.cgroups import swapping
from pykubelet.kubelet.compose.foundation import Foundation
from pykubelet.kubelet.compose.node.admission_node import AdmissionNode
from pykubelet.kubelet.compose.observe import Observers
from pykubelet.kubelet.desired.admission import Admission, AdmissionDeps
from pykubelet.kubelet.desired.manifest.manifest_types import ObjectKey
from pykubelet.kubelet.desired.objects import Objects
from pykubelet.kubelet.desired.pods import PodManager
from pykubelet.kubelet.desired.sources import Sources, sources_config
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.models.core_v1 import Node


class ObjectUsers:
    """Posts the pods that use a ConfigMap or Secret to the sync loop whenever it changes."""

    def __init__(self, objects: Objects, pods: PodManager, *, post: Callable[[frozenset[PodUID]], None]) -> None:
        self._pods = pods
        self._post = post
        objects.subscribe(self._changed)

    def _changed(self, keys: frozenset[ObjectKey]) -> None:
        self._post(self._pods.using(keys))


class DesiredComponents(Struct, frozen=True, kw_only=True):
    """The components that say which pods run here."""

    sources: Sources
    """Those of manifests."""
    node: AdmissionNode
    """The node that pods are admitted to."""
    admission: Admission
    users: ObjectUsers


def build_desired(
    foundation: Foundation, *, actuators: Actuators, observers: Observers, registered: Callable[[], Node | None]
) -> DesiredComponents:
    """Build the stage. ``registered`` returns the Node object of the API server; None without one."""
    settings, clock = foundation.settings, foundation.recorders.clock
    sources = Sources(
        config=sources_config(settings),
        mux=foundation.tables.mux,
        objects=foundation.manifests.objects,
        states=foundation.manifests.states,
        clock=clock,
    )
    node = AdmissionNode(
        settings=foundation.live.current,
        facts=actuators.node,
        registered=registered,
        conditions=observers.eviction.conditions,
        shutting_down=observers.shutdown.under_way,
    )
    admission = Admission(
        AdmissionDeps(
            node=node.node,
            sysctl_refusal=node.sysctl_refusal,
            active=foundation.tables.workers.active,
            allocations=actuators.runtime.allocations,
            pending=foundation.tables.pending,
            swapping=partial(swapping, policy=actuators.resources.policy),
            telemetry=foundation.recorders.telemetry(foundation.recorders.metrics.pods),
        )
    )
    objects = foundation.access.objects if foundation.access is not None else foundation.manifests.objects
    users = ObjectUsers(objects, foundation.tables.pods, post=foundation.tables.queue.post_affected)
    return DesiredComponents(sources=sources, node=node, admission=admission, users=users)
