"""The view of the other stages in the local API, and the explanation of a pod."""

from typing import Any
from unittest.mock import Mock, create_autospec

from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.actuate.host import NodeFacts, NodeOptions
from pykubelet.kubelet.compose.clients import RuntimeClients
from pykubelet.kubelet.compose.local_api.agent_view import LocalManifests, NodeInfo, PresentProblems, RuntimeImages
from pykubelet.kubelet.compose.local_api.explain import Explanations
from pykubelet.kubelet.control.workers import PodWorkers
from pykubelet.kubelet.desired.manifest.manifest_types import ObjectKey, Problem
from pykubelet.kubelet.desired.sources import ManifestStates
from pykubelet.kubelet.desired.sources.source_types import ManifestState
from pykubelet.kubelet.observe.probes import ProbeManager
from pykubelet.kubelet.report.explain import DecisionJournal
from pykubelet.kubelet.serve.local_api import PodsView
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.updates import Source
from pykubelet.pb import images_v1_pb2 as transfer
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.clock import VirtualClock
from tests.unit.kubelet.control.fakes import make_pod


async def test_images_and_pulls_are_those_of_the_runtime() -> None:
    cri: Any = create_autospec(CriClient, instance=True)
    shown = RuntimeImages(cri=cri)
    cri.list_images.return_value = [pb.Image(id="i", repo_tags=["a:1"], size=7, pinned=True)]
    (image,) = await shown.images()
    assert (image.id, image.repo_tags, image.size, image.pinned) == ("i", ("a:1",), 7, True)
    phase = transfer.Phase.Value(transfer.Phase.keys()[-1])
    cri.list_pulls.return_value = [transfer.Progress(image="a:1", phase=phase, done=1, total=2)]
    (pull,) = await shown.pulls()
    assert (pull.image, pull.phase, pull.done, pull.total) == ("a:1", transfer.Phase.Name(phase).lower(), 1, 2)


def test_problems_are_those_of_manifests_and_of_a_runtime_that_does_not_respond() -> None:
    manifests, faults = ManifestStates(Mock()), [None, "no response for 5 s"]
    problems = PresentProblems(manifests=manifests, runtime_fault=lambda: faults.pop(0))
    assert problems() == []
    problem = Problem("/m/web.yaml", "not YAML")
    manifests.replace(Source.FILE, [ManifestState(Source.FILE, "/m/web.yaml", problems=(problem,))])
    assert [(each.subject, each.reason) for each in problems()] == [
        ("/m/web.yaml", "FailedValidation"),
        ("container runtime", "ContainerRuntimeNotReady"),
    ]


def test_manifests_of_the_directory_are_shown_without_those_of_other_sources() -> None:
    states, key = ManifestStates(Mock()), ObjectKey("Pod", "default", "web")
    states.replace(Source.FILE, [ManifestState(Source.FILE, "/m/web.yaml", objects=(key,))])
    states.replace(Source.HTTP, [ManifestState(Source.HTTP, "http://x")])
    manifests = LocalManifests(path="/m", node_name="one", states=states, defined=Mock(), viewer=Mock(), changes=Mock())
    shown = manifests.files()
    assert (shown.path, shown.node_name) == ("/m", "one")
    assert [(each.file, each.objects) for each in shown.items] == [("/m/web.yaml", (str(key),))]


def test_versions_are_those_of_the_agent_and_of_the_runtime() -> None:
    facts = NodeFacts(NodeOptions(name="one", ips=(), allocatable={}, resolv_conf=""))
    facts.runtime.learn(pb.VersionResponse(runtime_name="containerd", runtime_version="2.1"), pb.StatusResponse())
    cri: Any = create_autospec(CriClient, instance=True)
    clients = RuntimeClients(cri=cri, image_cri=cri, runtime_endpoint="unix:///cri")
    found = NodeInfo(name="one", facts=facts, clients=clients, viewer=Mock(), reader=Mock()).version()
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
