"""Composition of the local API's view of the other stages."""

from collections.abc import Callable

from pykubelet.kubelet.compose.foundation import Foundation
from pykubelet.kubelet.compose.local_api.agent_view import LocalApiView
from pykubelet.kubelet.compose.local_api.explain import Explanations
from pykubelet.kubelet.compose.local_api.pod_requests import PodRequests
from pykubelet.kubelet.compose.node.node_view import ManifestChanges, NodeViewDeps, NodeViewer
from pykubelet.kubelet.compose.stages import Stages
from pykubelet.kubelet.config.plan.reload_plan import ConfigView


def build_view(foundation: Foundation, stages: Stages, configuration: Callable[[], ConfigView]) -> LocalApiView:
    """Build the view. ``configuration`` returns the state of the configuration."""
    settings, recorders, actuators, observers = (
        foundation.settings,
        foundation.recorders,
        stages.actuators,
        stages.observers,
    )
    name, workers = settings.node_name, stages.control.workers
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
    return LocalApiView(
        name=name,
        configuration=configuration,
        clients=foundation.clients,
        facts=actuators.node,
        manifests=foundation.manifests.states,
        local_objects=foundation.manifests.objects,
        manifest_path=settings.config.static_pod_path,
        recorders=recorders,
        local_node=stages.local_node,
        requests=PodRequests(
            restarts=actuators.runtime.restarts,
            images=actuators.images,
            wake=foundation.tables.queue.post_affected,
            workers=workers,
        ),
        runtime_fault=observers.health.healthy,
        viewer=viewer,
        explain=Explanations(pods=stages.reports.view, workers=workers, probes=observers.probes, recorders=recorders),
        apply=ManifestChanges(
            path=settings.config.static_pod_path, node_name=name, manifests=foundation.manifests.states, viewer=viewer
        ).apply,
    )
