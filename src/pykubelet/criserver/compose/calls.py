"""Builds the groups of CRI calls."""

from collections.abc import Callable

from msgspec import Struct

from pykubelet.criserver.compose.live_configuration import LiveConfiguration
from pykubelet.criserver.compose.pods import Pods
from pykubelet.criserver.machine import Machine
from pykubelet.criserver.scope import ServerScope
from pykubelet.criserver.server import Groups
from pykubelet.criserver.server.cri_calls.containers import ContainerCalls
from pykubelet.criserver.server.cri_calls.events import EventCalls
from pykubelet.criserver.server.cri_calls.metrics import MetricCalls
from pykubelet.criserver.server.cri_calls.runtime import RuntimeCalls
from pykubelet.criserver.server.cri_calls.sandboxes import SandboxCalls
from pykubelet.criserver.server.cri_calls.stats import StatsCalls
from pykubelet.criserver.server.cri_calls.streaming import StreamingCalls
from pykubelet.criserver.stats import StatsCollector
from pykubelet.criserver.stats.inspector import Inspector
from pykubelet.criserver.stats.stats_interfaces import Layers
from pykubelet.criserver.storage.trash import Trash
from pykubelet.criserver.streaming import StreamingServer
from pykubelet.linux import cgroups
from pykubelet.linux.cgroups.counters import CgroupCounterReader


class CallDeps(Struct, frozen=True, kw_only=True):
    """Dependencies of the calls of RuntimeService."""

    configuration: LiveConfiguration
    scope: ServerScope
    machine: Machine
    network_problem: Callable[[], str]
    pods: Pods
    layers: Layers
    trash: Trash
    streaming: StreamingServer


def build_calls(deps: CallDeps) -> Groups:
    """Build the groups of calls of RuntimeService."""
    scope, machine, pods = deps.scope, deps.machine, deps.pods
    containers, sandboxes = pods.containers, pods.sandboxes
    stats = StatsCollector(cgroups=machine.cgroups, layers=deps.layers, clock=scope.clock)
    counter_reader = CgroupCounterReader(cgroups.detect())
    inspector = Inspector(cgroups=machine.cgroups, counter_reader=counter_reader, layers=deps.layers, clock=scope.clock)
    return (
        RuntimeCalls(
            configuration=deps.configuration,
            network_problem=deps.network_problem,
            handlers=machine.handlers,
            host=machine.host,
            unfinished=scope.repairs.unfinished,
            trash=deps.trash,
        ),
        SandboxCalls(sandboxes=sandboxes, containers=containers, scope=scope),
        ContainerCalls(containers=containers, sandboxes=sandboxes, scope=scope),
        EventCalls(hub=scope.events, sandboxes=sandboxes, containers=containers),
        StatsCalls(collector=stats, containers=containers, sandboxes=sandboxes, clock=scope.clock),
        MetricCalls(
            inspector=inspector, collector=stats, containers=containers, sandboxes=sandboxes, clock=scope.clock
        ),
        StreamingCalls(server=deps.streaming, containers=containers, sandboxes=sandboxes),
    )
