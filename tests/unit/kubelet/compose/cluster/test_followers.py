"""Components of node mode that are notified of each pod, and of each version of the Node object."""

import asyncio
from typing import Any
from unittest.mock import call, create_autospec

import pytest
from msgspec.structs import replace

from pykubelet.kubelet.actuate.host import NodeFacts
from pykubelet.kubelet.compose.cluster.followers import ApiPodView, ClusterPods, NodeFollower
from pykubelet.kubelet.desired.objects.cluster import ClusterObjects
from pykubelet.kubelet.desired.pods import PodManager
from pykubelet.kubelet.desired.pods.mirror_pods import MirrorPods
from pykubelet.kubelet.report.node import NodeReporter
from pykubelet.kubelet.report.status.status_manager import StatusManager
from pykubelet.kubelet.report.status.status_patcher import StatusPatcher
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.reports.status_changes import StatusChange
from pykubelet.kubelet.types.updates import ANNOTATION_HASH, ANNOTATION_MIRROR
from pykubelet.models.core_v1 import Node, NodeAddress, NodeStatus, Pod, PodStatus
from pykubelet.models.meta_v1 import ObjectMeta
from tests.unit.kubelet.control.fakes import make_pod

STATIC, BOUND = make_pod("static"), make_pod("bound", name="bound", source="api")


def mirror(uid: str = "mirror", of: str = "static") -> Pod:
    pod = make_pod(uid, source="api")
    marks = {ANNOTATION_MIRROR: of, ANNOTATION_HASH: of}
    return replace(pod, metadata=replace(pod.metadata, annotations={**pod.metadata.annotations, **marks}))


class Rig:
    """The followers of pods over the real pod manager and fakes of all components."""

    def __init__(self) -> None:
        self.manager = PodManager()
        self.objects: Any = create_autospec(ClusterObjects, instance=True)
        self.statuses: Any = create_autospec(StatusManager, instance=True)
        self.patcher: Any = create_autospec(StatusPatcher, instance=True)
        self.mirrors: Any = create_autospec(MirrorPods, instance=True)
        self.pods = ClusterPods(
            pods=self.manager,
            objects=self.objects,
            statuses=self.statuses,
            patcher=self.patcher,
            mirrors=self.mirrors,
        )


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_pod_of_the_api_server_has_its_objects_watched_and_its_status_patched(rig: Rig) -> None:
    rig.pods.pod_seen(BOUND)
    rig.objects.use.assert_called_once_with(BOUND)
    rig.patcher.seen.assert_called_once_with("bound")
    assert not rig.mirrors.poke.called
    rig.pods.pod_admitted(BOUND)
    rig.objects.expect.assert_called_once_with(BOUND)
    rig.pods.pod_gone(PodUID("bound"))
    rig.objects.release.assert_called_once_with("bound")
    assert rig.mirrors.poke.call_count == 1


def test_static_pod_gets_a_mirror_pod_and_uses_no_object_of_the_api_server(rig: Rig) -> None:
    rig.pods.pod_seen(STATIC)
    assert rig.mirrors.poke.call_count == 1
    assert not rig.objects.use.called and not rig.patcher.seen.called


def test_mirror_pod_concerns_the_status_of_its_static_pod(rig: Rig) -> None:
    rig.pods.pod_seen(mirror())
    assert rig.mirrors.poke.call_count == 1, "the static pod is gone, so the mirror pod has to go"
    assert not rig.statuses.mirror_seen.called
    rig.manager.set(STATIC)
    rig.pods.pod_seen(mirror())
    rig.statuses.mirror_seen.assert_called_once_with(STATIC)
    rig.patcher.seen.assert_called_once_with("static")
    assert rig.mirrors.poke.call_count == 2


@pytest.mark.parametrize(
    ("pod", "current", "reconciled"), [(STATIC, None, True), (STATIC, PodStatus(), False), (BOUND, None, False)]
)
def test_mirror_pods_are_reconciled_when_a_static_pod_is_gone(
    rig: Rig, pod: Pod, current: PodStatus | None, reconciled: bool
) -> None:
    rig.pods.status_changed(StatusChange(pod=pod, previous=PodStatus(), current=current, version=1))
    assert rig.mirrors.poke.called is reconciled


def test_counterpart_is_the_pod_itself_or_the_mirror_of_its_current_version() -> None:
    pods = PodManager()
    view = ApiPodView(pods)
    pods.set(BOUND)
    marks = {**STATIC.metadata.annotations, ANNOTATION_HASH: "static"}
    pods.set(replace(STATIC, metadata=replace(STATIC.metadata, annotations=marks)))
    assert view.counterpart(PodUID("unknown")) is None
    assert view.counterpart(PodUID("bound")) is BOUND
    assert view.counterpart(PodUID("static")) is None
    pods.set(mirror(of="other"))
    assert view.counterpart(PodUID("static")) is None
    pods.set(mirror())
    assert view.counterpart(PodUID("static")) == mirror()


def node(version: str = "1") -> Node:
    addresses = (NodeAddress(type="InternalIP", address="10.0.0.1"), NodeAddress(type="Hostname", address="one"))
    return Node(
        metadata=ObjectMeta(name="one", uid="u", resource_version=version), status=NodeStatus(addresses=addresses)
    )


class NodeRig:
    """The follower of the Node object, with fakes of those that it tells."""

    def __init__(self, *, cloud: bool = False) -> None:
        self.reporter: Any = create_autospec(NodeReporter, instance=True)
        self.reporter.registered = asyncio.Event()
        self.facts: Any = create_autospec(NodeFacts, instance=True)
        self.objects: Any = create_autospec(ClusterObjects, instance=True)
        self.mirrors: Any = create_autospec(MirrorPods, instance=True)
        self.follower = NodeFollower(
            reporter=self.reporter,
            facts=self.facts,
            objects=self.objects,
            mirrors=self.mirrors,
            external_cloud=cloud,
        )


@pytest.mark.parametrize("cloud", [True, False])
def test_addresses_of_the_node_object_count_only_with_an_external_cloud_provider(cloud: bool) -> None:
    rig = NodeRig(cloud=cloud)
    rig.follower.seen({("", "one"): node()})
    assert rig.facts.learn_ips.mock_calls == ([call(("10.0.0.1",))] if cloud else [])
    rig.objects.node_seen.assert_called_once_with(node())
    assert rig.mirrors.poke.called and not rig.reporter.node_missing.called


def test_version_that_the_reporter_knows_already_is_not_passed_on() -> None:
    rig = NodeRig(cloud=True)
    rig.reporter.node_updated.return_value = False
    rig.follower.seen({("", "one"): node()})
    assert not rig.facts.learn_ips.called and not rig.objects.node_seen.called


def test_missing_node_is_reported_to_its_reporter() -> None:
    rig = NodeRig()
    rig.follower.seen({})
    rig.reporter.node_missing.assert_called_once_with()


@pytest.mark.parametrize("newer", [True, False])
def test_node_that_was_read_again_is_passed_on_unless_the_watch_was_faster(newer: bool) -> None:
    rig = NodeRig()
    rig.reporter.lacks.return_value = newer
    rig.follower.reread(node("2"))
    assert rig.reporter.node_updated.call_args_list == ([call(node("2"))] if newer else [])
