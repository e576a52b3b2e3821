"""The node as the local API shows it: pods with their manifests' names and files, objects with their keys."""

from pathlib import Path
from typing import cast
from unittest.mock import Mock

import pytest

from pykubelet.base.errors import Permanent
from pykubelet.kubelet.actuate.host import NodeFacts as ActuatorNode
from pykubelet.kubelet.actuate.host import NodeOptions
from pykubelet.kubelet.compose.node.node_view import ManifestChanges, NodeViewDeps, NodeViewer
from pykubelet.kubelet.config import KubeletConfiguration, Settings
from pykubelet.kubelet.desired.admission import NodeProperties
from pykubelet.kubelet.desired.manifest import parse
from pykubelet.kubelet.desired.objects import LocalObjects
from pykubelet.kubelet.desired.sources import ManifestStates
from pykubelet.kubelet.desired.sources.plan.effective_manifests import accept, assemble
from pykubelet.kubelet.types.ids import PodRef
from pykubelet.kubelet.types.reports.node_view import (
    ApplyRequest,
    ApplyView,
    DocumentView,
    HostPortView,
    NodeView,
    ObjectView,
    PodView,
)
from pykubelet.kubelet.types.resources.pod_requests import amounts
from pykubelet.kubelet.types.sysctls import SysctlAllowlist
from pykubelet.kubelet.types.updates import Source
from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import Pod

_TEXT = b"""
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: apart}
spec:
  containers:
  - {name: c, image: i, ports: [{containerPort: 1, hostPort: 80}], resources: {requests: {cpu: 100m, memory: 1Mi}}}
---
apiVersion: v1
kind: Secret
metadata: {name: login}
stringData: {user: me, password: secret}
"""


class _Events:
    def event(
        self, pod: PodRef | None, event_type: str, reason: str, message: str, *, container: str = "", **more: object
    ) -> None:
        raise AssertionError(message)


def _of_api(name: str, cpu: str) -> Pod:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return from_builtins({"metadata": {"name": name, "uid": name}, "spec": {"containers": [container]}}, Pod)


def _view(objects: LocalObjects, manifests: ManifestStates, *pods: Pod) -> NodeView:
    node = NodeProperties(name="N1", labels={"a": "b"}, allocatable=amounts({"cpu": "2", "x/y": "3"}), max_pods=9)
    options = NodeOptions(
        name="N1", ips=(), allocatable={}, resolv_conf="", sysctls=SysctlAllowlist.make((5, 0), ["net.core.*"])
    )
    config = KubeletConfiguration(static_pod_path="/m")
    deps = NodeViewDeps(
        settings=Settings(node_name="N1", config=config, runtime_endpoint="", root_dir=Path("/r"), run_dir=Path("/r")),
        facts=ActuatorNode(options),
        admission=lambda: node,
        active=lambda: pods,
        objects=objects,
        manifests=manifests,
    )
    return NodeViewer(deps).view()


def test_view_has_pods_and_objects_with_their_files() -> None:
    objects, manifests = LocalObjects(), ManifestStates(_Events())
    content = assemble([accept(None, parse(_TEXT, "/m/web.yaml"), "")], Source.FILE, "N1")
    manifests.replace(Source.FILE, content.states)
    objects.replace(Source.FILE, content.objects)
    view = _view(objects, manifests, *content.pods, _of_api("api", "1500m"), _of_api("broken", "much"))
    assert (view.name, view.manifests, view.cluster, view.max_pods) == ("N1", "/m", False, 9)
    assert (view.labels, view.allocatable) == ({"a": "b"}, {"cpu": "2", "x/y": "3"})
    assert view.runtime_handlers == ()
    assert SysctlAllowlist.make((0, 0), view.sysctls) == SysctlAllowlist.make((5, 0), ["net.core.*"])
    assert view.objects == (
        ObjectView(kind="Secret", namespace="default", name="login", keys=("password", "user"), source="/m/web.yaml"),
    )
    assert view.pods == (
        PodView(
            namespace="apart",
            name="web",
            source="/m/web.yaml",
            requests={"cpu": "100m", "memory": "1048576"},
            host_ports=(HostPortView(port=80),),
        ),
        PodView(namespace="default", name="api", requests={"cpu": "1500m"}),
    )


async def test_applied_objects_are_checked_against_the_node_and_placed_in_its_directory(tmp_path: Path) -> None:
    viewer = Mock(view=lambda: _view(LocalObjects(), ManifestStates(_Events())))
    changes = ManifestChanges(
        path=str(tmp_path), node_name="N1", manifests=ManifestStates(_Events()), viewer=cast(NodeViewer, viewer)
    )

    async def apply(text: bytes, *, dry_run: bool = False) -> ApplyView:
        document = DocumentView(origin="web.yaml", text=text.decode())
        return await changes.apply(ApplyRequest(documents=(document,), dry_run=dry_run))

    small = _TEXT.replace(b", memory: 1Mi", b"")
    assert (await apply(_TEXT)).errors == 1, "the node has no memory"
    assert (await apply(small, dry_run=True)).changes
    assert not list(tmp_path.iterdir())
    assert (await apply(small)).changes
    assert "name: web" in "".join(path.read_text() for path in tmp_path.glob("*.yaml"))


async def test_agent_that_reads_no_directory_places_no_objects() -> None:
    changes = ManifestChanges(path="", node_name="N1", manifests=ManifestStates(_Events()), viewer=Mock())
    with pytest.raises(Permanent):
        await changes.apply(ApplyRequest(documents=()))
