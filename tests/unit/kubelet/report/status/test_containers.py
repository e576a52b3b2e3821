"""Container statuses: states, reasons, counts, readiness, and containers that the runtime has lost."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pykubelet.base.units import Bytes, MilliCPU
from pykubelet.kubelet.report.status.plan.containers import ContainerComputer
from pykubelet.kubelet.report.status.plan.resources import pod_allocated, pod_resources
from pykubelet.kubelet.report.status.status_types import StatusContext
from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.kubelet.types.outcome import Failure, SyncAction
from pykubelet.kubelet.types.probes import ContainerProbes, ProbeResult
from pykubelet.kubelet.types.resources.size import Size
from pykubelet.kubelet.types.runtime import (
    ContainerKind,
    ContainerResources,
    ContainerState,
    PodRuntimeStatus,
)
from pykubelet.kubelet.types.runtime import ContainerStatus as RuntimeStatus
from pykubelet.models import codec
from pykubelet.models import core_v1 as core
from pykubelet.models.scalars import time_from_unix
from tests.unit.kubelet.report.pods import NOW, attempt, container, exited, pod, runtime, sidecar, with_meta

T = TypeVar("T")
INIT, ORDINARY, EPHEMERAL = ContainerKind.INIT, ContainerKind.CONTAINER, ContainerKind.EPHEMERAL


def some(value: T | None) -> T:
    assert value is not None
    return value


def statuses(
    value: core.Pod,
    seen: PodRuntimeStatus,
    ctx: StatusContext | None = None,
    *,
    kind: ContainerKind = ORDINARY,
    previous: Sequence[core.ContainerStatus] = (),
    restarting_all: bool = False,
) -> tuple[core.ContainerStatus, ...]:
    computer = ContainerComputer(
        pod=value, runtime=seen, ctx=ctx or StatusContext(now=NOW), restarting_all=restarting_all
    )
    return computer.statuses(kind, previous)


def one(
    *attempts: RuntimeStatus,
    previous: core.ContainerStatus | None = None,
    waiting: Mapping[str, Failure] | None = None,
    terminating: bool = False,
    runtime_name: str = "containerd",
) -> core.ContainerStatus:
    """The status of the only container, ``app``."""
    ctx = StatusContext(now=NOW, waiting=waiting or {}, terminating=terminating, runtime_name=runtime_name)
    (status,) = statuses(pod(), runtime(*attempts), ctx, previous=[previous] if previous else [])
    return status


def waiting(reason: str, target: str = "app") -> Mapping[str, Failure]:
    return {target: Failure(SyncAction.START_CONTAINER, target, reason, f"{reason} it is")}


def brief(status: core.ContainerStatus) -> str:
    """Return state, exit code and reason in one word."""
    return _brief(status.state)


def _brief(state: core.ContainerState | None) -> str:
    if state is None:
        return "none"
    if state.running is not None:
        return "running"
    if state.terminated is not None:
        return f"{state.terminated.exit_code}:{state.terminated.reason}"
    return some(state.waiting).reason


# -- the plain cases --------------------------------------------------------------------------------------------------


def test_status_of_a_running_container_has_every_field() -> None:
    seen = replace(attempt(number=3, image="registry.test/app:1"), user=(1000, 1001, (1001, 7)), stop_signal="SIGINT")
    status = one(replace(seen, image_id="registry.test/app@sha256:abc"))
    assert status == core.ContainerStatus(
        name="app",
        image="registry.test/app:1",
        image_id="registry.test/app@sha256:abc",
        container_id="containerd://app-3",
        state=core.ContainerState(running=core.ContainerStateRunning(started_at=time_from_unix(NOW - 69))),
        ready=True,
        started=True,
        restart_count=3,
        resources=core.ResourceRequirements(),
        user=core.ContainerUser(linux=core.LinuxContainerUser(uid=1000, gid=1001, supplemental_groups=(1001, 7))),
        stop_signal="SIGINT",
    )


def test_an_ended_container_in_full() -> None:
    seen = attempt(state=ContainerState.EXITED, exit_code=3, reason="Error", message="could not")
    status = one(seen, runtime_name="cri-o")
    assert some(status.state).terminated == core.ContainerStateTerminated(
        exit_code=3,
        reason="Error",
        message="could not",
        started_at=time_from_unix(NOW - 99),
        finished_at=time_from_unix(NOW - 98),
        container_id="cri-o://app-0",
    )
    assert (status.ready, status.started, status.container_id) == (False, False, "cri-o://app-0")
    assert status.image_id == "sha256:app"


def test_container_that_was_never_created_is_waiting() -> None:
    assert brief(one()) == "ContainerCreating"
    (status,) = statuses(pod(init=[container("i0")]), runtime())
    assert brief(status) == "PodInitializing"
    assert (status.restart_count, status.ready, status.started, status.container_id) == (0, False, False, "")


def test_statuses_are_sorted_but_for_init_containers_and_only_for_the_spec() -> None:
    value = pod(container("zeta"), container("alpha"), init=[container("second"), container("first")])
    seen = runtime(attempt("other"), attempt("alpha"), attempt("zeta"))
    assert [s.name for s in statuses(value, seen)] == ["alpha", "zeta"]
    assert [s.name for s in statuses(value, seen, kind=INIT)] == ["second", "first"]


@pytest.mark.parametrize(
    ("state", "started", "expected"),
    [
        (ContainerState.CREATED, False, "ContainerCreating"),
        (ContainerState.RUNNING, True, "running"),
        (ContainerState.EXITED, True, "0:Completed"),
        (ContainerState.UNKNOWN, True, "137:ContainerStatusUnknown"),
        (ContainerState.UNKNOWN, False, "ContainerCreating"),
    ],
)
def test_container_state_is_derived_from_the_runtime_state(state: ContainerState, started: bool, expected: str) -> None:
    assert brief(one(attempt(state=state, started=started))) == expected


def test_the_running_attempt_counts_even_if_a_leftover_is_newer() -> None:
    leftover = attempt(state=ContainerState.CREATED, number=2)
    status = one(leftover, attempt(number=1))
    assert (brief(status), status.container_id, status.last_state) == ("running", "containerd://app-1", None)


# -- last state and restart count -------------------------------------------------------------------------------------


def test_the_attempt_before_is_the_last_state() -> None:
    status = one(attempt(number=2), exited(code=1, number=1), exited(code=9, number=0))
    assert (brief(status), _brief(status.last_state), status.restart_count) == ("running", "1:Error", 2)


def test_the_last_state_survives_the_removal_of_the_attempt() -> None:
    first = one(exited(code=4))
    second = one(attempt(number=1), previous=first)
    assert _brief(second.last_state) == "4:Error"
    third = one(attempt(number=1), previous=second)
    assert _brief(third.last_state) == "4:Error"


def test_the_restart_count_goes_on_when_the_runtime_has_lost_it() -> None:
    before = one(exited(code=4, number=6))
    lost = replace(attempt(number=0), id=ContainerID("new"))
    assert one(lost, previous=before).restart_count == 7
    assert one(lost, previous=one(lost, previous=before)).restart_count == 7
    assert one(attempt(number=7), previous=before).restart_count == 7


@given(counts=st.lists(st.integers(0, 5), min_size=2, max_size=8), states=st.data())
def test_the_restart_count_never_goes_down(counts: list[int], states: st.DataObject) -> None:
    previous: core.ContainerStatus | None = None
    for count in counts:
        state = states.draw(st.sampled_from([*ContainerState, None]))
        attempts = () if state is None else (attempt(state=state, number=count),)
        status = one(*attempts, previous=previous)
        assert previous is None or status.restart_count >= previous.restart_count
        previous = status


# -- containers that the runtime has lost -----------------------------------------------------------------------------


def test_lost_running_container_ended_with_137() -> None:
    before = one(attempt(number=2))
    status = one(previous=before)
    assert (brief(status), _brief(status.last_state)) == ("ContainerCreating", "137:ContainerStatusUnknown")
    assert status.restart_count == 3
    assert one(previous=status) == status, "it is said once"


def test_lost_container_of_a_deleted_pod_does_not_count_as_a_restart() -> None:
    value = with_meta(pod(), deletion_timestamp=time_from_unix(NOW))
    (status,) = statuses(value, runtime(), previous=[one(attempt(number=2))])
    assert (_brief(status.last_state), status.restart_count) == ("137:ContainerStatusUnknown", 2)
    assert one(previous=one(attempt(number=2)), terminating=True).restart_count == 2


def test_removed_container_keeps_its_terminated_state() -> None:
    before = one(exited(code=5, number=1))
    assert one(previous=before) == before


def test_removed_container_that_waited_keeps_waiting() -> None:
    before = one(exited(code=1, number=1), waiting=waiting("CrashLoopBackOff"))
    status = one(previous=before)
    assert (brief(status), _brief(status.last_state), status.restart_count) == ("ContainerCreating", "1:Error", 1)


def test_unknown_state_is_reported_as_an_end_once() -> None:
    unknown = attempt(state=ContainerState.UNKNOWN, started=False)
    before = one(attempt())
    first = one(unknown, previous=before)
    assert brief(first) == "137:ContainerStatusUnknown"
    assert one(unknown, previous=first).state == first.state


@given(
    state=st.sampled_from([ContainerState.UNKNOWN, None]),
    before=st.sampled_from([None, "running", "ended"]),
    started=st.booleans(),
)
def test_an_unknown_end_is_never_a_success(state: ContainerState | None, before: str | None, started: bool) -> None:
    known = {None: None, "running": one(attempt()), "ended": one(exited(code=2))}[before]
    attempts = () if state is None else (attempt(state=state, started=started),)
    status = one(*attempts, previous=known)
    ends = [s.terminated for s in (status.state, status.last_state) if s is not None and s.terminated is not None]
    assert all(end.exit_code != 0 for end in ends)
    if before == "running":
        assert ends, "a container that ran and does not run has an end"


# -- waiting reasons --------------------------------------------------------------------------------------------------


def test_message_of_a_container_that_cannot_start_is_cut() -> None:
    """It may contain an image name of any length, and a status that is too large for the API is never reported."""
    containers = [container(f"c{number}") for number in range(60)]
    long = {
        each.name: Failure(SyncAction.START_CONTAINER, each.name, "InvalidImageName", "ä" * 400_000)
        for each in containers
    }
    (single,) = statuses(pod(containers[0]), runtime(), StatusContext(now=NOW, waiting=long))
    many = statuses(pod(*containers), runtime(), StatusContext(now=NOW, waiting=long))
    assert some(some(single.state).waiting).message == "ä" * 6144
    assert {some(some(each.state).waiting).message for each in many} == {"ä" * 512}


def test_message_with_bytes_that_are_not_utf8_can_be_reported() -> None:
    """A subPathExpr may name a Secret's value of any bytes, and its error shows it."""
    text = "error SubPath `/a\udcff` must not be an absolute path"
    failed = {"app": Failure(SyncAction.START_CONTAINER, "app", "CreateContainerConfigError", text)}
    (waits,) = statuses(pod(container()), runtime(), StatusContext(now=NOW, waiting=failed))
    ended = one(replace(exited(), message=text))
    assert some(some(waits.state).waiting).message == text.replace("\udcff", "?")
    assert codec.decode(codec.encode(waits), core.ContainerStatus) == waits
    assert codec.encode(ended)


@pytest.mark.parametrize("attempts", [(), (replace(attempt(), image=""),)], ids=["absent", "without-name"])
def test_image_name_that_is_too_long_is_cut(attempts: tuple[RuntimeStatus, ...]) -> None:
    """Spec and status together would be too large for the API."""
    given = replace(container(), image="r.example/" + "a" * 800_000)
    (status,) = statuses(pod(given), runtime(*attempts))
    assert status.image == given.image[:4096]


def test_path_of_a_mount_that_is_too_long_is_cut() -> None:
    """The API takes it, and the kernel does not; spec and status together would be too large for the API."""
    given = replace(container(), volume_mounts=(core.VolumeMount(name="v", mount_path="/" + "a" * 800_000),))
    (status,) = statuses(pod(given), runtime())
    assert [each.mount_path for each in status.volume_mounts] == ["/" + "a" * 4095]


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "CreateContainerConfigError"])
def test_a_container_that_cannot_start_waits_with_the_reason(reason: str) -> None:
    status = one(waiting=waiting(reason))
    assert some(status.state).waiting == core.ContainerStateWaiting(reason=reason, message=f"{reason} it is")
    assert status.last_state is None


@pytest.mark.parametrize(
    ("policy", "code", "expected"),
    [
        ("Always", 0, "CrashLoopBackOff"),
        ("Always", 1, "CrashLoopBackOff"),
        ("OnFailure", 0, "0:Completed"),
        ("OnFailure", 1, "CrashLoopBackOff"),
        ("Never", 1, "1:Error"),
    ],
)
def test_back_off_shows_only_where_a_restart_is_to_come(policy: str, code: int, expected: str) -> None:
    ctx = StatusContext(now=NOW, waiting=waiting("CrashLoopBackOff"))
    (status,) = statuses(pod(restart_policy=policy), runtime(exited(code=code, number=4)), ctx)
    assert brief(status) == expected
    if expected == "CrashLoopBackOff":
        assert some(some(status.last_state).terminated).exit_code == code
    assert status.restart_count == 4


def test_a_running_container_and_a_terminating_pod_do_not_wait() -> None:
    assert brief(one(attempt(), waiting=waiting("ErrImagePull"))) == "running"
    assert brief(one(exited(code=1), waiting=waiting("CrashLoopBackOff"), terminating=True)) == "1:Error"
    assert brief(one(waiting=waiting("ErrImagePull"), terminating=True)) == "ContainerCreating"


# -- init, sidecar and ephemeral containers ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attempts", "reasons", "expected", "ready"),
    [
        ((), {}, "PodInitializing", False),
        ((attempt("i0"),), {}, "running", False),
        ((exited("i0"),), {}, "0:Completed", True),
        ((exited("i0"),), waiting("CrashLoopBackOff", "i0"), "0:Completed", True),
        ((exited("i0", 1),), {}, "1:Error", False),
        ((exited("i0", 1),), waiting("CrashLoopBackOff", "i0"), "CrashLoopBackOff", False),
        ((), waiting("ErrImagePull", "i0"), "ErrImagePull", False),
        ((attempt(),), {}, "0:Completed", True),
        ((exited(code=1),), {}, "0:Completed", True),
        ((attempt(state=ContainerState.UNKNOWN),), {}, "PodInitializing", False),
    ],
)
def test_init_container_status_follows_its_attempts_and_reasons(
    attempts: tuple[RuntimeStatus, ...], reasons: Mapping[str, Failure], expected: str, ready: bool
) -> None:
    ctx = StatusContext(now=NOW, waiting=reasons)
    (status,) = statuses(pod(init=[container("i0")]), runtime(*attempts), ctx, kind=INIT)
    assert (brief(status), status.ready) == (expected, ready)


def test_missing_sidecar_does_not_count_as_completed() -> None:
    (status,) = statuses(pod(init=[sidecar()]), runtime(attempt()), kind=INIT)
    assert brief(status) == "PodInitializing"


def test_a_completed_init_container_stays_ready_while_the_pod_ends() -> None:
    ctx = StatusContext(now=NOW, terminating=True)
    (status,) = statuses(pod(init=[container("i0")]), runtime(exited("i0")), ctx, kind=INIT)
    assert status.ready


def test_ephemeral_container_is_never_ready_but_has_a_state() -> None:
    debug = core.EphemeralContainer(name="debug", image="busybox")
    value = pod(ephemeral=[debug], restart_policy="Always")
    (status,) = statuses(value, runtime(attempt("debug")), kind=EPHEMERAL)
    assert (brief(status), status.ready, status.started) == ("running", False, None)
    (status,) = statuses(
        value, runtime(), StatusContext(now=NOW, waiting=waiting("ErrImagePull", "debug")), kind=EPHEMERAL
    )
    assert brief(status) == "ErrImagePull"


# -- probes -----------------------------------------------------------------------------------------------------------

S, F, U = ProbeResult.SUCCESS, ProbeResult.FAILURE, ProbeResult.UNKNOWN
PROBE = core.Probe(exec=core.ExecAction(command=("true",)))


@pytest.mark.parametrize(
    ("startup", "readiness", "probes", "started", "ready"),
    [
        (None, None, ContainerProbes(), True, True),
        (PROBE, None, ContainerProbes(), False, False),
        (PROBE, None, ContainerProbes(startup=U), False, False),
        (PROBE, None, ContainerProbes(startup=F), False, False),
        (PROBE, None, ContainerProbes(startup=S), True, True),
        (None, PROBE, ContainerProbes(), True, False),
        (None, PROBE, ContainerProbes(readiness=F), True, False),
        (None, PROBE, ContainerProbes(readiness=U), True, False),
        (None, PROBE, ContainerProbes(readiness=S), True, True),
        (PROBE, PROBE, ContainerProbes(startup=F, readiness=S), False, False),
        (PROBE, PROBE, ContainerProbes(startup=S, readiness=F), True, False),
        (PROBE, PROBE, ContainerProbes(startup=S, readiness=S), True, True),
    ],
)
@pytest.mark.parametrize("as_sidecar", [False, True])
def test_started_and_ready_follow_the_results_of_probes(
    startup: core.Probe | None,
    readiness: core.Probe | None,
    probes: ContainerProbes,
    started: bool,
    ready: bool,
    as_sidecar: bool,
) -> None:
    make = sidecar if as_sidecar else container
    probed = make("p", startup_probe=startup, readiness_probe=readiness)
    value = pod(init=[probed]) if as_sidecar else pod(probed)
    kind = INIT if as_sidecar else ORDINARY
    ctx = StatusContext(now=NOW, probes={ContainerID("p-0"): probes})
    (status,) = statuses(value, runtime(attempt("p")), ctx, kind=kind)
    assert (status.started, status.ready) == (started, ready)
    (status,) = statuses(value, runtime(attempt("p")), replace(ctx, terminating=True), kind=kind)
    assert (status.started, status.ready) == (started, ready), "a pod that is being stopped serves what it still can"
    (status,) = statuses(value, runtime(exited("p")), ctx, kind=kind)
    assert (status.started, status.ready) == (False, False)


def test_agent_restart_keeps_readiness_of_the_same_container() -> None:
    value = pod(container(startup_probe=PROBE, readiness_probe=PROBE))
    ctx = StatusContext(now=NOW, probes={ContainerID("app-0"): ContainerProbes(startup=S, readiness=S)})
    (ready,) = statuses(value, runtime(attempt()), ctx)
    (status,) = statuses(value, runtime(attempt()), previous=[ready])
    assert (status.started, status.ready) == (True, True)
    (status,) = statuses(value, runtime(attempt(number=1)), previous=[ready])
    assert (status.started, status.ready) == (False, False), "not of another container"


# -- restart of all containers ----------------------------------------------------------------------------------------


def test_a_container_removed_for_the_restart_of_all_waits_and_counts() -> None:
    before = one(attempt(number=1))
    (status,) = statuses(pod(), runtime(), previous=[before], restarting_all=True)
    assert (brief(status), _brief(status.last_state), status.restart_count) == (
        "RestartingAllContainers",
        "137:RestartingAllContainers",
        2,
    )
    assert statuses(pod(), runtime(), previous=[status], restarting_all=True)[0].restart_count == 2
    again = one(attempt(number=2), previous=status)
    assert (brief(again), again.restart_count) == ("running", 2)


# -- resources, mounts, messages --------------------------------------------------------------------------------------


def resources(requests: Mapping[str, str], limits: Mapping[str, str]) -> core.ResourceRequirements:
    return core.ResourceRequirements(requests=dict(requests), limits=dict(limits))


@pytest.mark.parametrize(
    ("applied", "requests", "limits", "got_requests", "got_limits"),
    [
        (None, {"cpu": "1"}, {"cpu": "2"}, {"cpu": "1"}, {"cpu": "2"}),
        (ContainerResources(cpu_shares=102), {"cpu": "100m"}, {}, {"cpu": "100m"}, {}),
        (ContainerResources(cpu_shares=2), {"cpu": "1m"}, {}, {"cpu": "1m"}, {}),
        (ContainerResources(cpu_shares=512), {"cpu": "100m"}, {}, {"cpu": "500m"}, {}),
        (ContainerResources(cpu_quota_us=50_000, cpu_period_us=100_000), {}, {"cpu": "0.5"}, {}, {"cpu": "0.5"}),
        (ContainerResources(cpu_quota_us=200_000, cpu_period_us=100_000), {}, {"cpu": "1"}, {}, {"cpu": "2"}),
        (ContainerResources(cpu_quota_us=1_000, cpu_period_us=100_000), {}, {"cpu": "5m"}, {}, {"cpu": "5m"}),
        (ContainerResources(cpu_quota_us=-1, cpu_period_us=100_000), {}, {"cpu": "1"}, {}, {"cpu": "1"}),
        (ContainerResources(memory_limit_bytes=1 << 20), {}, {"memory": "1024Ki"}, {}, {"memory": "1024Ki"}),
        (ContainerResources(memory_limit_bytes=3 << 20), {}, {"memory": "1Mi"}, {}, {"memory": "3Mi"}),
        (ContainerResources(memory_limit_bytes=3 << 20), {"memory": "1Mi"}, {}, {"memory": "1Mi"}, {}),
        (ContainerResources(cpu_shares=512), {}, {}, {}, {}),
    ],
)
def test_resources_as_applied(
    applied: ContainerResources | None,
    requests: Mapping[str, str],
    limits: Mapping[str, str],
    got_requests: Mapping[str, str],
    got_limits: Mapping[str, str],
) -> None:
    value = pod(container(resources=resources(requests, limits)))
    (status,) = statuses(value, runtime(replace(attempt(), resources=applied)))
    assert status.resources == resources(got_requests, got_limits)
    assert status.allocated_resources == requests


def test_pod_resources_are_the_sums_of_its_containers() -> None:
    amounts = {"cpu": "100m", "memory": "1536Ki", "ephemeral-storage": "1Gi"}
    value = pod(container(resources=resources(amounts, {"cpu": "1"})))
    assert pod_resources(value) == resources({"cpu": "100m", "memory": "1536Ki"}, {"cpu": "1"})
    assert pod_allocated(value) == amounts
    odd = pod(container(resources=resources({"memory": "10m"}, {})))
    assert pod_allocated(odd) == {"memory": "10m"}
    assert pod_resources(pod(container())) == core.ResourceRequirements()


def test_resources_are_as_noted_while_a_resize_is_under_way() -> None:
    value = pod(container(resources=resources({"cpu": "1", "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"})))
    old = Size(MilliCPU(2000), MilliCPU(2000), Bytes(2 << 30), Bytes(2 << 30))
    (status,) = statuses(value, runtime(replace(attempt(), size=old)))
    assert status.resources == resources({"cpu": "2", "memory": "2Gi"}, {"cpu": "2", "memory": "2Gi"})
    applied = ContainerResources(memory_limit_bytes=1 << 30)
    (status,) = statuses(value, runtime(replace(attempt(), size=old, resources=applied)))
    assert status.resources == resources({"cpu": "2", "memory": "2Gi"}, {"cpu": "2", "memory": "1Gi"})
    for other in (attempt(), replace(exited(), size=old)):
        (status,) = statuses(value, runtime(other))
        assert status.resources == some(value.spec.containers[0].resources)


@pytest.mark.parametrize(
    ("fields", "supported", "mode"),
    [
        ({}, True, ""),
        ({"read_only": True}, True, "Disabled"),
        ({"read_only": True, "recursive_read_only": "IfPossible"}, True, "Enabled"),
        ({"read_only": True, "recursive_read_only": "IfPossible"}, False, "Disabled"),
        ({"read_only": True, "recursive_read_only": "Enabled"}, True, "Enabled"),
        ({"read_only": True, "recursive_read_only": "Enabled", "mount_propagation": "None"}, True, "Enabled"),
        (
            {"read_only": True, "recursive_read_only": "Enabled", "mount_propagation": "HostToContainer"},
            True,
            "Disabled",
        ),
    ],
)
def test_mount_status_has_the_recursive_read_only_mode(
    fields: Mapping[str, object], supported: bool, mode: str
) -> None:
    mount = replace(core.VolumeMount(name="data", mount_path="/data"), **fields)
    ctx = StatusContext(now=NOW, recursive_read_only=supported)
    (status,) = statuses(pod(container(volume_mounts=(mount,))), runtime(attempt()), ctx)
    read_only = True if fields else None
    assert status.volume_mounts == (
        core.VolumeMountStatus(name="data", mount_path="/data", read_only=read_only, recursive_read_only=mode),
    )


@pytest.mark.parametrize(("containers", "expected"), [(1, 12288), (3, 4096), (5, 2457)])
def test_termination_messages_share_a_limit(containers: int, expected: int) -> None:
    value = pod(*(container(f"c{i}") for i in range(containers)))
    seen = runtime(attempt("c0", ContainerState.EXITED, message="ü" * 20_000))
    message = some(some(statuses(value, seen)[0].state).terminated).message
    assert len(message.encode()) == expected - expected % 2
    assert set(message) == {"ü"}
