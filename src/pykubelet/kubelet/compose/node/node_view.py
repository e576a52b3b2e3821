"""The local API's view of the node, and the changes of its manifests that clients of that API ask for."""

from collections.abc import Callable, Iterable

from msgspec import Struct

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Invalid
from pykubelet.kubelet.actuate.host import NodeFacts
from pykubelet.kubelet.config import Settings
from pykubelet.kubelet.desired.admission import NodeProperties
from pykubelet.kubelet.desired.admission.plan.fit import needs_of
from pykubelet.kubelet.desired.changes import Document, ManifestDirectory, apply_documents
from pykubelet.kubelet.desired.manifest.manifest_types import ObjectKey
from pykubelet.kubelet.desired.manifest.static import manifest_name
from pykubelet.kubelet.desired.objects import LocalObjects
from pykubelet.kubelet.desired.sources import ManifestStates
from pykubelet.kubelet.types.ids import ref_of
from pykubelet.kubelet.types.reports.node_view import (
    ApplyRequest,
    ApplyView,
    HostPortView,
    NodeView,
    ObjectView,
    PodView,
)
from pykubelet.kubelet.types.resources.allocatable import written
from pykubelet.kubelet.types.updates import is_static
from pykubelet.models.core_v1 import Pod


class NodeViewDeps(Struct, frozen=True, kw_only=True):
    """Dependencies of `NodeViewer`."""

    settings: Settings
    facts: NodeFacts
    admission: Callable[[], NodeProperties]
    """Returns the node as admission sees it."""
    active: Callable[[], Iterable[Pod]]
    """Returns the pods whose requests admission counts."""
    objects: LocalObjects
    manifests: ManifestStates


class NodeViewer:
    """Gathers the view from several stages. For the event loop's thread; never waits."""

    def __init__(self, deps: NodeViewDeps) -> None:
        self._deps = deps

    def objects(self) -> list[ObjectView]:
        """Return the ConfigMaps and Secrets of the manifests, with their keys and the file that each comes from."""
        origins = self._origins()
        objects = self._deps.objects
        return [
            ObjectView(
                kind=key.kind,
                namespace=key.namespace,
                name=key.name,
                keys=objects.data_keys(key),
                source=origins.get(key, ""),
            )
            for key in sorted(objects.keys(), key=str)
        ]

    def view(self) -> NodeView:
        """Return the node."""
        deps, node = self._deps, self._deps.admission()
        return NodeView(
            name=node.name,
            manifests=deps.settings.config.static_pod_path,
            cluster=deps.settings.cluster is not None,
            labels=node.labels,
            allocatable=written(node.allocatable.by_name),
            max_pods=node.max_pods,
            runtime_handlers=tuple(handler.name for handler in deps.facts.runtime.handlers),
            app_armor=node.app_armor,
            strict_groups=node.strict_groups,
            sysctls=deps.facts.sysctls().patterns,
            objects=tuple(self.objects()),
            pods=tuple(self._pods(node.name)),
        )

    def _pods(self, node_name: str) -> Iterable[PodView]:
        origins = self._origins()
        for pod in self._deps.active():
            try:
                needs = needs_of(pod)
            except Invalid:
                continue  # of the API server; admission has reported it
            ref = ref_of(pod)
            name = manifest_name(ref.name, node_name) if is_static(pod) else ref.name
            yield PodView(
                namespace=ref.namespace,
                name=name,
                source=origins.get(ObjectKey("Pod", ref.namespace, name), "") if is_static(pod) else "",
                requests=written(needs.requests.by_name),
                host_ports=tuple(HostPortView(ip=p.ip, protocol=p.protocol, port=p.port) for p in needs.ports),
            )

    def _origins(self) -> dict[ObjectKey, str]:
        states = self._deps.manifests.states()
        return {key: state.origin for state in states for key in (*state.kept, *state.objects)}


class ManifestChanges(Struct, frozen=True, kw_only=True):
    """Places objects in the directory that the agent reads; the agent then reads it as after any other change."""

    path: str
    """The directory or file of manifests; empty: the agent reads no such path."""
    node_name: str
    manifests: ManifestStates
    viewer: NodeViewer

    async def apply(self, request: ApplyRequest) -> ApplyView:
        """Check documents against each other and this node, and place their objects. Errors: `apply_documents`."""
        kept = {str(key): state.origin for state in self.manifests.states() for key in state.kept}
        directory = ManifestDirectory.of_agent(self.path, node_name=self.node_name, kept=kept)
        documents = [Document(each.origin, each.text.encode()) for each in request.documents]
        view = self.viewer.view()

        def apply() -> ApplyView:
            return apply_documents(documents, directory, view, namespace=request.namespace, dry_run=request.dry_run)

        return await blocking.call("manifest-changes", apply)
