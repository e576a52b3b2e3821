"""What the local API shows of the other stages, and how a pod is explained."""

from typing import Any
from unittest.mock import Mock, create_autospec

import pytest

from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.actuate.node import NodeFacts, NodeOptions
from pykubelet.kubelet.compose.clients import RuntimeClients
from pykubelet.kubelet.compose.local_api.agent_view import LocalApiView
from pykubelet.kubelet.compose.local_api.explain import Explanations
from pykubelet.kubelet.control.workers import PodWorkers
from pykubelet.kubelet.desired.manifest.manifest_types import ObjectKey, Problem
from pykubelet.kubelet.desired.sources import ManifestStates
from pykubelet.kubelet.desired.sources.source_types import ManifestState
from pykubelet.kubelet.observe.probes import ProbeManager
from pykubelet.kubelet.report.explain import DecisionJournal
from pykubelet.kubelet.serve.local_socket import PodsView
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.updates import Source
from pykubelet.pb import images_v1_pb2 as transfer
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.clock import VirtualClock
from tests.unit.kubelet.control.fakes import make_pod


class Rig:
    """The view over a runtime and manifests; other stages are fakes."""

    def __init__(self) -> None:
        self.images: Any = create_autospec(CriClient, instance=True)
        self.manifests = ManifestStates(Mock())
        self.facts = NodeFacts(NodeOptions(name="one", ips=(), allocatable={}, resolv_conf=""))
        self.fault: str | None = None
        others = {name: Mock() for name in ("configuration", "local_objects", "recorders", "local_node", "requests")}
        self.view = LocalApiView(
            name="one",
            clients=RuntimeClients(cri=self.images, image_cri=self.images, runtime_endpoint="unix:///cri"),
            facts=self.facts,
            manifests=self.manifests,
            manifest_path="/m",
            runtime_fault=lambda: self.fault,
            viewer=Mock(),
            explain=Mock(),
            apply=Mock(),
            **others,
        )


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def test_images_and_pulls_are_those_of_the_runtime(rig: Rig) -> None:
    rig.images.list_images.return_value = [pb.Image(id="i", repo_tags=["a:1"], size=7, pinned=True)]
    (image,) = await rig.view.images()
    assert (image.id, image.repo_tags, image.size, image.pinned) == ("i", ("a:1",), 7, True)
    phase = transfer.Phase.Value(transfer.Phase.keys()[-1])
    rig.images.list_pulls.return_value = [transfer.Progress(image="a:1", phase=phase, done=1, total=2)]
    (pull,) = await rig.view.pulls()
    assert (pull.image, pull.phase, pull.done, pull.total) == ("a:1", transfer.Phase.Name(phase).lower(), 1, 2)


def test_problems_are_those_of_manifests_and_of_a_runtime_that_does_not_respond(rig: Rig) -> None:
    assert rig.view.problems() == []
    problem = Problem("/m/web.yaml", "not YAML")
    rig.manifests.replace(Source.FILE, [ManifestState(Source.FILE, "/m/web.yaml", problems=(problem,))])
    rig.fault = "no response for 5 s"
    assert [(each.subject, each.reason) for each in rig.view.problems()] == [
        ("/m/web.yaml", "FailedValidation"),
        ("container runtime", "ContainerRuntimeNotReady"),
    ]


def test_manifests_of_the_directory_are_shown_without_those_of_other_sources(rig: Rig) -> None:
    key = ObjectKey("Pod", "default", "web")
    rig.manifests.replace(Source.FILE, [ManifestState(Source.FILE, "/m/web.yaml", objects=(key,))])
    rig.manifests.replace(Source.HTTP, [ManifestState(Source.HTTP, "http://x")])
    shown = rig.view.manifest_files()
    assert (shown.path, shown.node_name) == ("/m", "one")
    assert [(each.file, each.objects) for each in shown.items] == [("/m/web.yaml", (str(key),))]


def test_versions_are_those_of_the_agent_and_of_the_runtime(rig: Rig) -> None:
    rig.facts.runtime.learn(pb.VersionResponse(runtime_name="containerd", runtime_version="2.1"), pb.StatusResponse())
    found = rig.view.version()
    assert (found.runtime_name, found.runtime_version, found.runtime_endpoint) == ("containerd", "2.1", "unix:///cri")


def test_pod_is_explained_by_its_worker_probes_and_journal() -> None:
    pod, clock = make_pod("a"), VirtualClock()
    view, workers, probes = (create_autospec(each, instance=True) for each in (PodsView, PodWorkers, ProbeManager))
    recorders = Mock(clock=clock, journal=DecisionJournal(clock))
    recorders.timelines.view.return_value = None
    explanations = Explanations(pods=view, workers=workers, probes=probes, recorders=recorders)
    view.get.return_value = None
    assert explanations(PodUID("a")) is None
    view.get.return_value = pod
    workers.state.return_value = workers.next_sync.return_value = None
    probes.reports.return_value = ()
    found = explanations(PodUID("a"))
    assert found is not None and (found.name, found.worker) == ("web", "")
    workers.state.return_value = Mock(phase="terminating", failures=())
    found = explanations(PodUID("a"))
    assert found is not None and found.worker == "terminating"
