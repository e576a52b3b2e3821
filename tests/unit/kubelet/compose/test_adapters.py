"""The adapters between the stages: what each passes on, and when."""

from typing import Any
from unittest.mock import Mock, call, create_autospec

import grpc
import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Transient
from pykubelet.kubelet.actuate.cgroups.qos_levels import QosLevels
from pykubelet.kubelet.actuate.cri import CriClient, CriTimeout
from pykubelet.kubelet.actuate.host import RuntimeFacts
from pykubelet.kubelet.actuate.volumes import VolumeManager
from pykubelet.kubelet.compose.adapters import (
    DesiredPods,
    NodeCounter,
    PlegMeter,
    PodFollower,
    ProbeExec,
    RuntimeStatusReader,
    measured_events,
)
from pykubelet.kubelet.compose.clients import RuntimeClients
from pykubelet.kubelet.control.workers import WorkerTable
from pykubelet.kubelet.desired.pods import PodManager
from pykubelet.kubelet.observe.pleg import Pleg
from pykubelet.kubelet.observe.probes import ExecResult
from pykubelet.kubelet.report.metrics import PlegMetrics
from pykubelet.kubelet.types.ids import ContainerID, PodUID
from pykubelet.kubelet.types.runtime_events import RuntimeEvent, RuntimeEventKind
from pykubelet.models.core_v1 import EphemeralContainer
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.clock import VirtualClock
from tests.unit.kubelet.control.fakes import make_pod


def client() -> Any:
    return create_autospec(CriClient, instance=True)


async def test_command_of_a_probe_that_timed_out_is_a_failure_and_not_an_error() -> None:
    cri = client()
    cri.exec_sync.return_value = pb.ExecSyncResponse(exit_code=3, stdout=b"out", stderr=b"err")
    run = ProbeExec(cri)
    assert await run(ContainerID("c"), ["true"], 1.0) == ExecResult(3, b"out", b"err")
    cri.exec_sync.side_effect = CriTimeout(grpc.StatusCode.DEADLINE_EXCEEDED, "ExecSync", "c", "too slow")
    with pytest.raises(TimeoutError, match="too slow"):
        await run(ContainerID("c"), ["true"], 1.0)


def test_interval_of_a_relist_is_counted_once() -> None:
    metrics = create_autospec(PlegMetrics, instance=True)
    meter = PlegMeter(metrics)
    meter.relist_duration(1.0)
    meter.relist_interval(10.0)
    meter.relist_duration(2.0)
    meter.relist_duration(3.0)
    assert metrics.pleg_relist.mock_calls == [call(1.0, None), call(2.0, 10.0), call(3.0, None)]
    meter.last_seen(7.0)
    assert meter.last == 7.0


async def test_each_stream_counts_as_open_with_its_first_event_and_events_are_passed_on_with_their_delay() -> None:
    clock, metrics, got = VirtualClock(), create_autospec(PlegMetrics, instance=True), Mock()
    event = RuntimeEvent("c", RuntimeEventKind.STARTED, clock.now() - 0.5)

    async def watch(deliver: Any) -> None:
        deliver(event)
        deliver(event)
        raise Transient("the stream broke")

    watched = measured_events(watch, metrics, clock)
    for _ in range(2):
        with pytest.raises(Transient):
            await watched(got)
    assert metrics.event_stream_works.mock_calls == [call()] * 2
    assert metrics.event_received.mock_calls == [call(0.5)] * 4
    assert got.mock_calls == [call(event)] * 4


def test_pods_are_known_before_views_and_followers_hear_of_them() -> None:
    pods, heard = PodManager(), Mock()
    known: list[tuple[str, bool]] = []
    view, follower = Mock(), create_autospec(PodFollower, instance=True)
    view.refresh.side_effect = lambda: known.append(("view", PodUID("a") in pods.uids()))
    follower.pod_seen.side_effect = lambda _: known.append(("follower", PodUID("a") in pods.uids()))
    desired = DesiredPods(pods=pods, view=view, follower=follower, changed=heard)
    first, second = make_pod("a"), make_pod("a", grace=5)
    desired.set(first)
    assert known == [("view", True), ("follower", True)] and heard.mock_calls == []
    desired.set(second)
    assert known[2:] == [("follower", True)] and heard.mock_calls == [call(first, second)]
    desired.admitted(second)
    follower.pod_admitted.assert_called_once_with(second)
    assert list(desired.uids()) == ["a"]
    desired.remove(PodUID("a"))
    assert known[3:] == [("view", False)] and list(desired.uids()) == []
    follower.pod_gone.assert_called_once_with("a")


def test_pods_of_a_node_without_a_cluster_have_no_follower() -> None:
    desired = DesiredPods(pods=PodManager(), view=Mock(), follower=None, changed=Mock())
    desired.set(make_pod("a"))
    desired.admitted(make_pod("a"))
    desired.remove(PodUID("a"))


def status(*, ready: bool) -> pb.StatusResponse:
    conditions = [pb.RuntimeCondition(type=name, status=ready) for name in ("RuntimeReady", "NetworkReady")]
    return pb.StatusResponse(status=pb.RuntimeStatus(conditions=conditions))


async def test_facts_about_the_runtime_are_read_whenever_it_has_started() -> None:
    cri, facts = client(), create_autospec(RuntimeFacts, instance=True)
    ask = RuntimeStatusReader(cri, facts)
    for reply, reads in ((status(ready=False), 1), (status(ready=True), 2), (status(ready=True), 2)):
        cri.status.return_value = reply
        assert (await ask()).runtime_ready is reply.status.conditions[0].status
        assert facts.learn.call_count == reads
    cri.status.side_effect = Transient("away")
    with pytest.raises(Transient):
        await ask()
    cri.status.side_effect = None
    await ask()
    assert facts.learn.call_count == 3


def test_counts_of_a_scrape_are_those_of_all_stages() -> None:
    pods = PodManager()
    debugged = make_pod("a")
    pods.set(replace(debugged, spec=replace(debugged.spec, ephemeral_containers=(EphemeralContainer(name="debug"),))))
    pods.set(make_pod("b", name="other", source="api"))
    pleg, volumes, levels = (create_autospec(each, instance=True) for each in (Pleg, VolumeManager, QosLevels))
    pleg.pods = {}
    volumes.counts.return_value = {("csi", "desired_state_of_world"): 1}
    levels.protected.return_value = None
    meter = PlegMeter(create_autospec(PlegMetrics, instance=True))
    meter.last_seen(5.0)
    count = NodeCounter(
        pods=pods, workers=WorkerTable(), pleg=pleg, pleg_meter=meter, volumes=volumes, cgroups=levels, csi=None
    )
    found = count()
    assert (found.desired_pods, found.mirror_pods, found.ephemeral_containers) == ({True: 1, False: 1}, 0, 1)
    assert (found.pleg_last_seen, found.volumes, found.plugins) == (5.0, volumes.counts.return_value, {})
    assert found.protected is None
    levels.protected.return_value = Mock(min=None, low=7)
    protected = count().protected
    assert protected is not None and (protected.min, protected.low) == (0, 7)


async def test_disks_of_images_and_containers_are_those_that_the_runtime_reports() -> None:
    cri = client()
    cri.image_fs_info.return_value = pb.ImageFsInfoResponse(
        image_filesystems=[pb.FilesystemUsage(fs_id=pb.FilesystemIdentifier(mountpoint="/images"))]
    )
    disks = await RuntimeClients(cri=client(), image_cri=cri).image_disks()
    assert (disks.images, disks.containers) == ("/images", "")
