"""Builds the parts that several stages share, before the stages: settings, tables, clients, recorders, manifests."""

from typing import TYPE_CHECKING

from msgspec import Struct

from pykubelet.base.clock import Clock
from pykubelet.base.http.http_get import HttpGetter
from pykubelet.kubelet.compose.clients import RuntimeClients, connect
from pykubelet.kubelet.compose.cluster.entry import open_access
from pykubelet.kubelet.compose.recorders import Recorders, build_recorders
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.config.live_settings import LiveSettings
from pykubelet.kubelet.control.sync.events import EventQueue
from pykubelet.kubelet.control.workers import WorkerTable
from pykubelet.kubelet.desired.objects import LocalObjects
from pykubelet.kubelet.desired.pods import PodManager
from pykubelet.kubelet.desired.sources import ManifestStates, PodMux, sources_config
from pykubelet.kubelet.types.resources.resize import PendingResizes
from pykubelet.kubelet.types.updates import Source

if TYPE_CHECKING:
    from pykubelet.kubelet.compose.cluster.api_access import ApiAccess


class Tables(Struct, frozen=True, kw_only=True):
    """The tables through which stages that need each other reach each other; they depend on none."""

    pods: PodManager
    """The desired pods."""
    workers: WorkerTable
    """The pods that have a worker: read and ended by stages that the workers themselves need."""
    queue: EventQueue
    """The sync loop's queue, to which all stages post."""
    mux: PodMux
    """The merge of all sources of pods, those of the API server included; posts to the queue."""
    pending: PendingResizes


class Manifests(Struct, frozen=True, kw_only=True):
    """The states of manifests, and their objects besides pods."""

    states: ManifestStates
    objects: LocalObjects
    """Their ConfigMaps and Secrets."""


class Foundation(Struct, frozen=True, kw_only=True):
    """Parts that the stages share."""

    settings: Settings
    """The settings at the start, for what a reload does not change."""
    live: LiveSettings
    """The settings in force."""
    tables: Tables
    clients: RuntimeClients
    http: HttpGetter
    """The client of probes and lifecycle hooks."""
    recorders: Recorders
    manifests: Manifests
    access: "ApiAccess | None"
    """None: standalone mode."""


def build_foundation(settings: Settings, clock: Clock) -> Foundation:
    """Build it. Raises Invalid for a bad kubeconfig."""
    pods, queue, objects = PodManager(), EventQueue(clock.monotonic), LocalObjects()
    recorders = build_recorders(settings, pods, clock)
    access = open_access(settings, local=objects, queue=queue, recorders=recorders)
    sources = sources_config(settings).names() | ({Source.API} if access is not None else frozenset())
    mux = PodMux(sources=sources, sink=queue.post, clock=clock)
    return Foundation(
        settings=settings,
        live=LiveSettings(settings),
        tables=Tables(pods=pods, workers=WorkerTable(), queue=queue, mux=mux, pending=PendingResizes()),
        clients=connect(settings, recorders.metrics),
        http=HttpGetter(),
        recorders=recorders,
        manifests=Manifests(states=ManifestStates(recorders.events), objects=objects),
        access=access,
    )
