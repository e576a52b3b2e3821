import logging

import pytest

from pykubelet.base import tracing
from pykubelet.base.concurrency.guard import item_failures
from pykubelet.kubelet.observe.probes import ProbeObservation, ProbeVerdict
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.probes import ContainerProbes, ProbeResult, ProbeType
from pykubelet.kubelet.types.runtime import PodRuntimeStatus
from pykubelet.models.core_v1 import Container, Pod, Probe
from tests.unit.base.tracing.recorded import recording
from tests.unit.kubelet.observe.probes.fakes import BAD, OK, Node, exited, make_pod, probe, running, status

SUCCESS, FAILURE, UNKNOWN = ProbeResult.SUCCESS, ProbeResult.FAILURE, ProbeResult.UNKNOWN
STARTUP, LIVENESS, READINESS = ProbeType.STARTUP, ProbeType.LIVENESS, ProbeType.READINESS
UID = PodUID("u")


def pod_with(*, startup: Probe | None = None, liveness: Probe | None = None, readiness: Probe | None = None) -> Pod:
    return make_pod(Container(name="c", startup_probe=startup, liveness_probe=liveness, readiness_probe=readiness))


def now_running(node: Node, cid: str = "1") -> PodRuntimeStatus:
    return status(running("c", cid, node.clock.now()))


async def test_a_readiness_probe_is_made_every_period_and_its_changes_are_reported() -> None:
    node = Node(answers={READINESS: (BAD, OK, OK, BAD, BAD, BAD, OK)})
    pod, at = pod_with(readiness=probe(period=5)), now_running(node)
    async with node.running():
        node.manager.sync_pod(pod, at)
        assert node.results("1", at) == ContainerProbes(readiness=FAILURE)
        await node.clock.advance(32)
        assert node.times(READINESS) == [0, 5, 10, 15, 20, 25, 30]
        assert node.updates == [("1", "Readiness", r) for r in ("success", "failure", "success")]
        assert node.recorded == [("c", "Unhealthy", "Readiness probe failed: bad")] * 4
        assert node.results("1", at) == ContainerProbes(readiness=SUCCESS)
        assert node.counted.count((READINESS, "failed")) == 4
        assert node.counted.count((READINESS, "successful")) == 3


async def test_probes_do_not_belong_to_the_trace_of_the_sync_that_begins_them() -> None:
    node = Node()
    with recording():
        async with node.running():
            with tracing.span("syncPod"):
                node.manager.sync_pod(pod_with(liveness=probe()), now_running(node))
            await node.clock.advance(20)
        assert [each for each in node.traces if each] == []
        assert len(node.traces) == 3


async def test_a_failed_liveness_probe_is_on_hold_until_the_container_is_another() -> None:
    node = Node(answers={LIVENESS: (OK, BAD, BAD, BAD)})
    pod, at = pod_with(liveness=probe()), now_running(node)
    async with node.running():
        node.manager.sync_pod(pod, at)
        assert node.results("1", at) == ContainerProbes(liveness=SUCCESS)
        await node.clock.advance(100)
        assert node.times(LIVENESS) == [0, 10, 20, 30]
        assert node.updates == [("1", "Liveness", "failure")]
        node.manager.sync_pod(pod, at)
        await node.clock.advance(100)
        assert len(node.asked) == 4
        assert node.results("1", at) == ContainerProbes(liveness=FAILURE)
        node.manager.sync_pod(pod, status(exited("c", "1")))
        assert node.results("1", at) is None
        again = now_running(node, "2")
        node.manager.sync_pod(pod, again)
        await node.clock.advance(1)
        assert node.asked[-1][1:] == (LIVENESS, "2")
        assert node.results("2", again) == ContainerProbes(liveness=SUCCESS)


async def test_a_failed_startup_probe_is_on_hold_and_starts_nothing() -> None:
    node = Node(answers={STARTUP: (BAD,)})
    pod, at = pod_with(startup=probe(period=1, failure=5), liveness=probe(), readiness=probe()), now_running(node)
    async with node.running():
        node.manager.sync_pod(pod, at)
        assert node.results("1", at) == ContainerProbes(UNKNOWN, SUCCESS, FAILURE)
        await node.clock.advance(60)
        assert [each[:2] for each in node.asked] == [(i, STARTUP) for i in range(5)]
        assert node.updates == [("1", "Startup", "failure")]


async def test_liveness_and_readiness_begin_when_the_container_has_started() -> None:
    node = Node(answers={STARTUP: (BAD, BAD, OK)})
    pod, at = pod_with(startup=probe(period=3), liveness=probe(), readiness=probe(delay=20)), now_running(node)
    async with node.running():
        node.manager.sync_pod(pod, at)
        await node.clock.advance(5.9)
        assert {each[1] for each in node.asked} == {STARTUP}
        await node.clock.advance(30)
        assert node.times(STARTUP) == [0, 3, 6]
        assert node.times(LIVENESS) == [6, 16, 26]
        assert node.times(READINESS) == [20, 30]
        assert node.updates == [("1", "Startup", "success"), ("1", "Readiness", "success")]


async def test_the_initial_delay_counts_from_the_containers_start() -> None:
    node = Node()
    pod, at = pod_with(liveness=probe(delay=7)), now_running(node)
    async with node.running():
        await node.clock.advance(3)
        node.manager.sync_pod(pod, at)
        await node.clock.advance(20)
        assert node.times(LIVENESS) == [7, 17]


async def test_slow_probe_does_not_overlap_itself() -> None:
    node = Node(takes=25)
    async with node.running():
        node.manager.sync_pod(pod_with(liveness=probe()), now_running(node))
        await node.clock.advance(80)
        assert node.times(LIVENESS) == [0, 25, 50, 75]


async def test_a_probe_under_way_when_its_container_ends_counts_for_nothing() -> None:
    node = Node(takes=5, answers={LIVENESS: (BAD,)})
    pod = pod_with(liveness=probe(failure=1))
    async with node.running():
        node.manager.sync_pod(pod, now_running(node))
        await node.clock.advance(2)
        node.manager.sync_pod(pod, status(exited("c", "1")))
        await node.clock.advance(60)
        assert (node.updates, node.recorded, len(node.asked)) == ([], [], 1)


async def test_probe_errors_and_warnings_change_no_result() -> None:
    error = ProbeObservation(ProbeVerdict.ERROR, "no such port")
    warning = ProbeObservation(ProbeVerdict.WARNING, "moved")
    node = Node(answers={LIVENESS: (BAD, BAD, error, warning, BAD, BAD, error, BAD)})
    async with node.running():
        node.manager.sync_pod(pod_with(liveness=probe()), now_running(node))
        await node.clock.advance(69)
        assert node.updates == []
        await node.clock.advance(1)
        assert node.updates == [("1", "Liveness", "failure")]
        errored = ("c", "Unhealthy", "Liveness probe errored and resulted in unknown state: no such port")
        assert node.recorded[2:4] == [errored, ("c", "ProbeWarning", "Liveness probe warning: moved")]
        assert node.counted.count((LIVENESS, "unknown")) == 2
        assert node.counted.count((LIVENESS, "successful")) == 1


async def test_after_an_agents_restart_nothing_is_unready_and_all_is_probed_soon() -> None:
    node = Node()
    containers = [Container(name=f"c{i}", readiness_probe=probe(delay=30)) for i in range(200)]
    pod = make_pod(*containers)
    at = status(*(running(c.name, c.name, node.clock.now() - 1000) for c in containers))
    async with node.running():
        node.manager.sync_pod(pod, at)
        assert node.results("c7", at) == ContainerProbes()
        await node.clock.advance(1.995)
        assert len({cid for _, _, cid in node.asked}) == 200
        assert node.times(READINESS) == pytest.approx([i / 100 for i in range(200)])
        assert node.results("c7", at) == ContainerProbes(readiness=SUCCESS)
        assert ("c7", "Readiness", "success") in node.updates


async def test_a_container_that_had_started_under_the_agent_before() -> None:
    node = Node(answers={STARTUP: (BAD,)})
    pod, at = pod_with(startup=probe(), liveness=probe()), status(running("c", "1", node.clock.now() - 1000))
    async with node.running():
        node.manager.sync_pod(pod, at)
        assert node.results("1", at) == ContainerProbes()
        await node.clock.advance(5)
        assert node.times(LIVENESS) == []
        assert node.times(STARTUP) == [0]


async def test_a_pod_that_is_stopped_is_asked_for_readiness_only() -> None:
    node = Node(answers={READINESS: (OK, BAD), LIVENESS: (OK, BAD)})
    pod, at = pod_with(liveness=probe(failure=1), readiness=probe(failure=1)), now_running(node)
    async with node.running():
        node.manager.sync_pod(pod, at)
        await node.clock.advance(5)
        node.manager.stop_all_but_readiness(UID)
        node.manager.sync_pod(pod, at)
        node.manager.sync_pod(pod, now_running(node, "another"))
        assert node.results("another", at) is None
        node.manager.sync_pod(pod, at)
        await node.clock.advance(30)
        assert node.times(LIVENESS) == [0]
        node.manager.remove_pod(UID)
        node.manager.sync_pod(pod, now_running(node, "3"))
        await node.clock.advance(5)
        assert node.asked[-1][2] == "3"


async def test_readiness_goes_on_while_the_pod_is_stopped() -> None:
    node = Node(answers={READINESS: (OK, BAD), LIVENESS: (OK, BAD)})
    pod, at = pod_with(liveness=probe(failure=1), readiness=probe(failure=1)), now_running(node)
    async with node.running():
        node.manager.sync_pod(pod, at)
        await node.clock.advance(5)
        node.manager.stop_all_but_readiness(UID)
        await node.clock.advance(30)
        assert node.updates == [("1", "Readiness", "success"), ("1", "Readiness", "failure")]
        assert node.results("1", at) == ContainerProbes(liveness=SUCCESS, readiness=FAILURE)
        node.manager.remove_pod(UID)
        assert node.manager.results(at) == {}
        asked = len(node.asked)
        await node.clock.advance(60)
        assert len(node.asked) == asked


async def test_pods_may_be_synced_before_the_manager_runs() -> None:
    node = Node()
    node.manager.sync_pod(pod_with(liveness=probe()), now_running(node))
    other = make_pod(Container(name="c", liveness_probe=probe()), uid="gone")
    node.manager.sync_pod(other, status(running("c", "2", node.clock.now()), uid="gone"))
    node.manager.remove_pod(PodUID("gone"))
    async with node.running():
        await node.clock.advance(1)
        assert [cid for _, _, cid in node.asked] == ["1"]
    assert node.closed
    assert node.clock.sleepers == 0


async def test_an_unready_pod_that_changes_is_asked_at_once_but_not_more_than_once_a_second() -> None:
    node = Node(answers={READINESS: (BAD, BAD, OK)})
    pod, at = pod_with(readiness=probe()), now_running(node)
    async with node.running():
        node.manager.sync_pod(pod, at)
        for _ in range(4):
            await node.clock.advance(0.4)
            node.manager.sync_pod(pod, at)
        await node.clock.advance(1.4)
        assert node.times(READINESS) == [0, 1.2]
        node.manager.sync_pod(pod, at)
        await node.clock.advance(5)
        node.manager.sync_pod(pod, at)
        await node.clock.advance(15)
        assert node.times(READINESS) == [0, 1.2, 3.0, 13.0, 23.0]


async def test_a_change_does_not_shorten_the_initial_delay() -> None:
    node = Node()
    pod, at = pod_with(readiness=probe(delay=8)), now_running(node)
    async with node.running():
        for _ in range(4):
            node.manager.sync_pod(pod, at)
            await node.clock.advance(1.5)
        assert node.asked == []


async def test_the_address_of_the_pod_may_change() -> None:
    node = Node()
    pod = pod_with(liveness=probe())
    box = status(running("c", "1", node.clock.now()), ips=())
    async with node.running():
        node.manager.sync_pod(pod, box)
        await node.clock.advance(1)
        node.manager.sync_pod(pod, now_running(node))
        await node.clock.advance(10)
        assert [t.pod_ip for t in node.targets] == ["", "10.0.0.9"]


async def test_a_defect_in_one_probe_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    node = Node(defect=ZeroDivisionError())
    pod, at = pod_with(liveness=probe(), readiness=probe()), now_running(node)
    before = item_failures().get("probes", 0)
    async with node.running():
        node.manager.sync_pod(pod, at)
        await node.clock.advance(0.5)
        assert "task failed: restarting it" in caplog.messages
        assert item_failures()["probes"] - before == 1
        assert node.times(READINESS) and not node.times(LIVENESS)
        node.defect = None
        await node.clock.advance(3)
        assert len(node.times(LIVENESS)) == 1
        caplog.set_level(logging.INFO)
        await node.clock.advance(30)
        assert len(node.times(LIVENESS)) == 4


async def test_results_read_while_a_conclusion_is_reported_are_the_new_ones() -> None:
    node = Node(answers={STARTUP: (OK,)})
    pod, at = pod_with(startup=probe()), now_running(node)
    seen: list[ContainerProbes | None] = []
    node.on_update = lambda: seen.append(node.results("1", at))
    async with node.running():
        node.manager.sync_pod(pod, at)
        await node.clock.advance(1)
    assert seen == [ContainerProbes(startup=SUCCESS)]


async def test_container_started_after_the_wall_clock_was_set_back_is_new() -> None:
    node = Node()
    pod = pod_with(readiness=probe(delay=30), liveness=probe(delay=7))
    async with node.running():
        await node.clock.advance(1)
        node.clock.jump_wall(-3600.0)
        at = now_running(node)
        node.manager.sync_pod(pod, at)
        assert node.results("1", at) == ContainerProbes(None, SUCCESS, FAILURE)
        await node.clock.advance(20)
        assert node.times(LIVENESS) == [8, 18]


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
async def test_initial_delay_after_the_wall_clock_jumped_is_as_long_as_before(jump: float) -> None:
    """The other probes begin when the container has started; their delay counts from its start."""
    node = Node(answers={STARTUP: (BAD, OK)})
    pod, at = pod_with(startup=probe(period=3), liveness=probe(delay=20)), now_running(node)
    async with node.running():
        node.manager.sync_pod(pod, at)
        await node.clock.advance(1)
        node.clock.jump_wall(jump)
        await node.clock.advance(30)
        assert node.times(STARTUP) == [0, 3]
        assert node.times(LIVENESS) == [20, 30]
