"""Composition of the local API's view of the other stages."""

from collections.abc import Callable

from pykubelet.kubelet.compose.foundation import Foundation
from pykubelet.kubelet.compose.local_api.agent_view import (
    LocalManifests,
    NodeInfo,
    PodHistory,
    PresentProblems,
    RuntimeImages,
)
from pykubelet.kubelet.compose.local_api.explain import Explanations
from pykubelet.kubelet.compose.local_api.pod_requests import PodRequests
from pykubelet.kubelet.compose.node.node_view import ManifestChanges, NodeViewDeps, NodeViewer
from pykubelet.kubelet.compose.stages import Stages
from pykubelet.kubelet.config.plan.reload_plan import ConfigView
from pykubelet.kubelet.serve.local_api import AgentView


def build_view(foundation: Foundation, stages: Stages, configuration: Callable[[], ConfigView]) -> AgentView:
    """Build the view. ``configuration`` returns the state of the configuration."""
    settings, recorders, clients = foundation.settings, foundation.recorders, foundation.clients
    actuators, observers, workers = stages.actuators, stages.observers, stages.control.workers
    viewer = NodeViewer(
        NodeViewDeps(
            settings=settings,
            facts=actuators.node,
            admission=stages.desired.node.node,
            active=foundation.tables.workers.active,
            objects=foundation.manifests.objects,
            manifests=foundation.manifests.states,
        )
    )
    return AgentView(
        images=RuntimeImages(cri=clients.image_cri),
        history=PodHistory(timelines=recorders.timelines, history=recorders.history),
        manifests=_manifests(foundation, viewer),
        node=NodeInfo(
            name=settings.node_name, facts=actuators.node, clients=clients, viewer=viewer, reader=stages.local_node
        ),
        requests=PodRequests(
            restarts=actuators.runtime.restarts,
            images=actuators.images.manager,
            wake=foundation.tables.queue.post_affected,
            workers=workers,
        ),
        explain=Explanations(
            pods=stages.reports.view, workers=workers, probes=observers.probes.manager, recorders=recorders
        ),
        problems=PresentProblems(manifests=foundation.manifests.states, runtime_fault=observers.health.healthy),
        configuration=configuration,
    )


def _manifests(foundation: Foundation, viewer: NodeViewer) -> LocalManifests:
    settings, manifests = foundation.settings, foundation.manifests
    path, name = settings.config.static_pod_path, settings.node_name
    return LocalManifests(
        path=path,
        node_name=name,
        states=manifests.states,
        defined=manifests.objects,
        viewer=viewer,
        changes=ManifestChanges(path=path, node_name=name, manifests=manifests.states, viewer=viewer),
    )
