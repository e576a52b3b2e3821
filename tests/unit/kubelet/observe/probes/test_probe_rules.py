import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.kubelet.observe.probes.plan.probe_rules import (
    ProbeState,
    first_delay,
    initial_state,
    is_finished,
    is_inherited,
    is_reported,
    observe,
    targets,
    timing,
)
from pykubelet.kubelet.observe.probes.probe_types import ProbeTarget, Timing
from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.kubelet.types.probes import ProbeResult, ProbeType
from pykubelet.models.core_v1 import Container, ContainerStatus, EphemeralContainer, Pod, PodSpec, PodStatus, Probe
from pykubelet.models.meta_v1 import ObjectMeta
from tests.unit.kubelet.observe.probes.fakes import REF, exited, make_pod, probe, running, status

SUCCESS, FAILURE, UNKNOWN = ProbeResult.SUCCESS, ProbeResult.FAILURE, ProbeResult.UNKNOWN
STARTUP, LIVENESS, READINESS = ProbeType.STARTUP, ProbeType.LIVENESS, ProbeType.READINESS


def test_running_containers_and_sidecars_are_probed() -> None:
    each = Probe()
    pod = make_pod(
        Container(name="a", liveness_probe=each, readiness_probe=each),
        Container(name="b", startup_probe=each),
        Container(name="dead", liveness_probe=each),
        Container(name="missing", liveness_probe=each),
        Container(name="silent"),
        init=(
            Container(name="side", restart_policy="Always", readiness_probe=each),
            Container(name="init", readiness_probe=each),
        ),
    )
    names = ("a", "b", "silent", "side", "init")
    at = status(*(running(name, f"id-{name}", 5.0) for name in names), exited("dead", "id-dead"))
    found = targets(pod, at, ("192.0.2.1",))
    assert set(found) == {("id-a", LIVENESS), ("id-a", READINESS), ("id-b", STARTUP), ("id-side", READINESS)}
    target = found[ContainerID("id-a"), LIVENESS]  # type: ignore[index]
    assert (target.ref, target.pod_ip, target.started_at) == (REF, "10.0.0.9", 5.0)


def test_only_the_newest_attempt_is_probed() -> None:
    pod = make_pod(Container(name="a", liveness_probe=Probe()))
    found = targets(pod, status(running("a", "new", 9.0), running("a", "old", 1.0)), ())
    assert [key.container_id for key in found] == ["new"]
    assert targets(pod, status(exited("a", "new"), running("a", "old", 1.0)), ()) == {}


def test_container_that_does_not_run_keeps_no_other_from_being_probed() -> None:
    pod = make_pod(*(Container(name=name, liveness_probe=Probe()) for name in ("ended", "absent", "runs")))
    found = targets(pod, status(exited("ended", "1"), running("runs", "2", 1.0)), ())
    assert [key.container_id for key in found] == ["2"]


def test_ephemeral_containers_have_no_probes() -> None:
    spec = PodSpec(ephemeral_containers=(EphemeralContainer(name="debug", liveness_probe=Probe()),))
    pod = Pod(metadata=ObjectMeta(name="web", uid="u"), spec=spec)
    assert targets(pod, status(running("debug", "d", 1.0)), ()) == {}


@pytest.mark.parametrize(
    ("host_network", "ips", "expected"),
    [(False, ("10.0.0.9", "fd00::9"), "10.0.0.9"), (False, (), ""), (True, (), "192.0.2.1")],
)
def test_probes_ask_the_address_of_pod_or_node(host_network: bool, ips: tuple[str, ...], expected: str) -> None:
    pod = make_pod(Container(name="a", liveness_probe=Probe()), host_network=host_network)
    (target,) = targets(pod, status(running("a", "1", 1.0), ips=ips), ("192.0.2.1", "192.0.2.2")).values()
    assert target.pod_ip == expected


def target_of(
    probe_type: ProbeType, started_at: float = 100.0, *, delay: int = 0, was_started: bool = False
) -> ProbeTarget:
    each = probe(delay=delay)
    return ProbeTarget(REF, Container(name="c"), ContainerID("1"), probe_type, each, "", started_at, was_started)


def test_startup_recorded_in_the_status_is_used() -> None:
    pod = make_pod(Container(name="a", startup_probe=Probe()))
    remembered = ContainerStatus(name="a", container_id="containerd://1", ready=True, restart_count=0, started=True)
    pod = Pod(metadata=pod.metadata, spec=pod.spec, status=PodStatus(container_statuses=(remembered,)))
    (same,) = targets(pod, status(running("a", "1", 1.0)), ()).values()
    (other,) = targets(pod, status(running("a", "2", 1.0)), ()).values()
    assert (same.was_started, other.was_started) == (True, False)


@pytest.mark.parametrize(
    ("probe_type", "fresh", "inherited"),
    [(STARTUP, UNKNOWN, None), (LIVENESS, SUCCESS, None), (READINESS, FAILURE, None)],
)
def test_initial_conclusion_follows_probe_type_and_inheritance(
    probe_type: ProbeType, fresh: ProbeResult, inherited: ProbeResult | None
) -> None:
    assert initial_state(target_of(probe_type, 100.0), inherited=is_inherited(100.0, 100.0)).conclusion is fresh
    assert initial_state(target_of(probe_type, 100.0), inherited=is_inherited(100.0, 100.5)).conclusion is inherited


def test_a_container_that_had_started_need_not_start_again() -> None:
    assert initial_state(target_of(STARTUP, 1.0, was_started=True), inherited=True).conclusion is SUCCESS
    assert initial_state(target_of(READINESS, 1.0, was_started=True), inherited=True).conclusion is None


def test_timing_without_fields_has_the_defaults() -> None:
    assert timing(Probe()) == Timing(0, 10, 1, 1, 3)
    assert timing(
        Probe(initial_delay_seconds=5, period_seconds=2, timeout_seconds=3, success_threshold=4, failure_threshold=6)
    ) == Timing(5, 2, 3, 4, 6)


@pytest.mark.parametrize(
    ("started_at", "delay", "now", "expected"),
    [(100, 0, 100, 0), (100, 5, 101, 4), (100, 5, 200, 0), (100, 5, 40, 5), (100, 0, 40, 0)],
)
def test_first_delay_counts_from_the_start_of_the_container(
    started_at: float, delay: int, now: float, expected: float
) -> None:
    assert first_delay(target_of(LIVENESS, 0.0, delay=delay), started_at, now) == expected


@pytest.mark.parametrize(
    ("probe_type", "start", "results", "conclusions"),
    [
        (LIVENESS, SUCCESS, "ffsff", "SSSSS"),
        (LIVENESS, SUCCESS, "sffF", "SSSF"),
        (READINESS, FAILURE, "sSsfsfff", "FSSSSSSF"),
        (READINESS, FAILURE, "sfsS", "FFFS"),
        (READINESS, None, "ffF", "--F"),
        (READINESS, None, "sS", "-S"),
        (STARTUP, UNKNOWN, "ffF", "UUF"),
        (STARTUP, UNKNOWN, "ffsS", "UUUS"),
    ],
)
def test_conclusion_changes_at_the_threshold_of_results(
    probe_type: ProbeType, start: ProbeResult | None, results: str, conclusions: str
) -> None:
    """Two successes, three failures; a capital result is one that changes the conclusion or keeps it so."""
    limits = Timing(0, 1, 1, success_threshold=2, failure_threshold=3)
    state = ProbeState(probe_type, start)
    letters = {None: "-", SUCCESS: "S", FAILURE: "F", UNKNOWN: "U"}
    seen = ""
    for each in results:
        state = observe(state, SUCCESS if each.lower() == "s" else FAILURE, limits)
        seen += letters[state.conclusion]
    assert seen == conclusions


@given(
    st.lists(st.sampled_from([SUCCESS, FAILURE]), min_size=1, max_size=30),
    st.integers(1, 4),
    st.integers(1, 4),
)
def test_a_conclusion_is_the_last_run_that_reached_its_threshold(
    results: list[ProbeResult], success: int, failure: int
) -> None:
    limits = Timing(0, 1, 1, success, failure)
    state = ProbeState(READINESS, None)
    expected: ProbeResult | None = None
    for i, result in enumerate(results):
        state = observe(state, result, limits)
        need = success if result is SUCCESS else failure
        if results[max(0, i + 1 - need) : i + 1] == [result] * need:
            expected = result
        assert state.conclusion is expected


@pytest.mark.parametrize(
    ("probe_type", "over"),
    [(STARTUP, {SUCCESS, FAILURE}), (LIVENESS, {FAILURE}), (READINESS, set())],
)
def test_probe_is_finished_by_results_of_its_type(probe_type: ProbeType, over: set[ProbeResult]) -> None:
    assert {r for r in ProbeResult if is_finished(ProbeState(probe_type, r))} == over
    assert not is_finished(ProbeState(probe_type, None))


@pytest.mark.parametrize(
    ("probe_type", "old", "new", "news"),
    [
        (LIVENESS, None, SUCCESS, False),
        (LIVENESS, SUCCESS, FAILURE, True),
        (LIVENESS, None, FAILURE, True),
        (READINESS, None, SUCCESS, True),
        (READINESS, SUCCESS, FAILURE, True),
        (READINESS, SUCCESS, SUCCESS, False),
        (STARTUP, UNKNOWN, SUCCESS, True),
        (STARTUP, None, FAILURE, True),
    ],
)
def test_change_of_a_result_is_reported_by_probe_type(
    probe_type: ProbeType, old: ProbeResult | None, new: ProbeResult, news: bool
) -> None:
    assert is_reported(ProbeState(probe_type, old), ProbeState(probe_type, new)) is news
