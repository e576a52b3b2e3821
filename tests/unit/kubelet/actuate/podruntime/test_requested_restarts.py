"""A requested restart replaces the attempts that it is bound to, and replaces them once."""

from pykubelet.kubelet.actuate.cri_messages.labels import container_hash
from pykubelet.kubelet.actuate.podruntime.plan.actions import compute_pod_actions
from pykubelet.kubelet.actuate.podruntime.plan.crashloop import CrashLoop
from pykubelet.kubelet.actuate.podruntime.plan.requested_restarts import RestartRequest, bound, marked, merged
from pykubelet.kubelet.actuate.podruntime.podruntime_types import PodRuntimeConfig
from pykubelet.kubelet.types.ids import ContainerID, PodRef, PodUID, SandboxID
from pykubelet.kubelet.types.runtime import ContainerState, ContainerStatus, PodRuntimeStatus, SandboxStatus
from pykubelet.models.core_v1 import Container, Pod, PodSpec
from pykubelet.models.meta_v1 import ObjectMeta

A, B = Container(name="a", image="i"), Container(name="b", image="i")
SIDECAR = Container(name="s", image="i", restart_policy="Always")
POD = Pod(
    metadata=ObjectMeta(name="p", namespace="ns", uid="u"),
    spec=PodSpec(containers=(A, B), init_containers=(SIDECAR,), restart_policy="Always"),
)
REF = PodRef("ns", "p", PodUID("u"))


def _attempt(
    spec: Container, number: int = 0, state: ContainerState = ContainerState.RUNNING, sandbox: str = "s0"
) -> ContainerStatus:
    return ContainerStatus(
        ContainerID(f"{spec.name}{number}"),
        spec.name,
        state,
        SandboxID(sandbox),
        created_at=float(number + 1),
        started_at=float(number + 1),
        finished_at=float(number + 2) if state is ContainerState.EXITED else 0.0,
        hash=container_hash(spec),
        restart_count=number,
    )


def _status(*containers: ContainerStatus, sandboxes: tuple[str, ...] = ("s0",)) -> PodRuntimeStatus:
    made = tuple(
        SandboxStatus(SandboxID(name), ready=index == 0, attempt=len(sandboxes) - index - 1, ips=("10.0.0.1",))
        for index, name in enumerate(sandboxes)
    )
    return PodRuntimeStatus(REF, made, containers)


RUNNING = _status(_attempt(B), _attempt(A), _attempt(SIDECAR))


def test_container_is_killed_and_started_and_no_other() -> None:
    request = bound(RestartRequest(containers=frozenset({"a"})), RUNNING)
    assert request == RestartRequest(attempts=frozenset({ContainerID("a0")}))
    actions = compute_pod_actions(POD, marked(RUNNING, request), {})
    assert [(kill.id, kill.message) for kill in actions.kill] == [
        ("a0", "Container a is to be restarted by request, will be restarted")
    ]
    assert [c.name for c in actions.start] == ["a"]
    assert not actions.create_sandbox


def test_sidecar_is_killed_and_started() -> None:
    request = bound(RestartRequest(containers=frozenset({"s"})), RUNNING)
    actions = compute_pod_actions(POD, marked(RUNNING, request), {})
    assert [kill.id for kill in actions.kill] == ["s0"]
    assert [c.name for c in actions.start_init] == ["s"]
    assert actions.start == ()


def test_pod_is_restarted_in_another_sandbox() -> None:
    request = bound(RestartRequest(pod=True), RUNNING)
    assert request.sandbox == "s0"
    assert request.attempts == {"a0", "b0", "s0"}
    actions = compute_pod_actions(POD, marked(RUNNING, request), {})
    assert (actions.kill_pod, actions.create_sandbox, actions.attempt) == (True, True, 1)
    assert [c.name for c in actions.start_init] == ["s"]


def test_request_is_done_once() -> None:
    request = bound(RestartRequest(containers=frozenset({"a"})), RUNNING)
    after = _status(_attempt(A, 1), _attempt(B), _attempt(A, 0, ContainerState.EXITED), _attempt(SIDECAR))
    assert bound(request, after).empty
    assert compute_pod_actions(POD, marked(after, bound(request, after)), {}).idle


def test_pod_request_is_done_when_everything_runs_in_the_other_sandbox() -> None:
    request = bound(RestartRequest(pod=True), RUNNING)
    ended = tuple(_attempt(c, 0, ContainerState.EXITED) for c in (A, B))
    begun = _status(_attempt(SIDECAR, 1, sandbox="s1"), *ended, sandboxes=("s1", "s0"))
    left = bound(request, begun)
    assert left == RestartRequest(attempts=frozenset({ContainerID("a0"), ContainerID("b0")}))
    actions = compute_pod_actions(POD, marked(begun, left), {})
    assert not actions.create_sandbox
    done = _status(*(_attempt(c, 1, sandbox="s1") for c in (A, B, SIDECAR)), *ended, sandboxes=("s1", "s0"))
    assert bound(left, done).empty


def test_bound_request_is_the_same_after_a_repetition() -> None:
    request = bound(RestartRequest(containers=frozenset({"a"}), pod=True), RUNNING)
    assert bound(request, RUNNING) == request


def test_another_request_for_a_bound_attempt_adds_nothing() -> None:
    request = bound(RestartRequest(containers=frozenset({"a"})), RUNNING)
    again = merged(request, RestartRequest(containers=frozenset({"a"})))
    assert bound(again, RUNNING) == request


def test_container_that_is_about_to_start_is_left_alone() -> None:
    status = _status(_attempt(A, 0, ContainerState.CREATED), _attempt(B), _attempt(SIDECAR))
    assert bound(RestartRequest(containers=frozenset({"a", "none"})), status).empty


def test_retry_binds_waiting_containers_only_and_skips_their_back_off() -> None:
    status = _status(_attempt(A, 3, ContainerState.EXITED), _attempt(B), _attempt(SIDECAR))
    crashes = CrashLoop(PodRuntimeConfig())
    assert crashes.wait(status, A, 6.0) is not None
    request = bound(RestartRequest(waiting=True), status)
    assert request.attempts == {"a3"}
    skipped = marked(status, request)
    assert crashes.wait(skipped, A, 6.0) is None
    crashes.starting(skipped, A, 6.0)
    again = _status(_attempt(A, 4, ContainerState.EXITED), _attempt(A, 3, ContainerState.EXITED), _attempt(B))
    wait = crashes.wait(again, A, 6.5)
    assert wait is not None
    assert wait.delay > 10.0
