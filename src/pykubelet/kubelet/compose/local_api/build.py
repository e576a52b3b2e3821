"""Composition of the local API's view of the other stages."""

from collections.abc import Callable

from pykubelet.kubelet.compose.foundation import Foundation
from pykubelet.kubelet.compose.local_api.agent_view import LocalApiView
from pykubelet.kubelet.compose.local_api.explain import Explanations
from pykubelet.kubelet.compose.local_api.pod_requests import PodRequests
from pykubelet.kubelet.compose.node.admission_node import AdmissionNode
from pykubelet.kubelet.compose.node.local_node import LocalNode
from pykubelet.kubelet.compose.node.node_status import NodeStatusReader
from pykubelet.kubelet.compose.node.node_view import ManifestChanges, NodeViewDeps, NodeViewer
from pykubelet.kubelet.compose.stages import Stages
from pykubelet.kubelet.config.plan.reload_plan import ConfigView
from pykubelet.models.core_v1 import Node


def build_view(
    ground: Foundation,
    stages: Stages,
    *,
    registered: Callable[[], Node | None],
    reader: NodeStatusReader,
    admission_node: AdmissionNode,
    configuration: Callable[[], ConfigView],
) -> LocalApiView:
    """Build the view. ``registered`` returns the Node object of the API server; None without one.

    ``configuration`` returns the state of the configuration.
    """
    settings, recorders, actuators = ground.settings, ground.recorders, stages.actuators
    name = settings.node_name
    viewer = NodeViewer(
        NodeViewDeps(
            settings=settings,
            facts=actuators.node,
            admission=admission_node.node,
            active=stages.workers.active,
            manifests=ground.manifests,
        )
    )
    return LocalApiView(
        name=name,
        configuration=configuration,
        clients=stages.clients,
        facts=actuators.node,
        manifests=ground.manifests,
        manifest_path=settings.config.static_pod_path,
        recorders=recorders,
        local_node=LocalNode(name=name, registered=registered, reader=reader, clock=recorders.clock),
        requests=PodRequests(
            restarts=actuators.runtime.restarts,
            images=actuators.images,
            wake=ground.queue.post_affected,
            workers=stages.workers,
        ),
        runtime_fault=stages.observers.health.healthy,
        viewer=viewer,
        explain=Explanations(
            pods=stages.reports.view, workers=stages.workers, probes=stages.observers.probes, recorders=recorders
        ),
        apply=ManifestChanges(
            path=settings.config.static_pod_path, node_name=name, manifests=ground.manifests, viewer=viewer
        ).apply,
    )
