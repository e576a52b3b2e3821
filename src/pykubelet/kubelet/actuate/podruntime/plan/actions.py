"""Computes the actions of a pod sync from the desired pod and its actual state. Pure.

Time is no input: whether a start has to wait for its back-off is checked right before the start (:mod:`.crashloop`).
Counterpart of ``computePodActions`` of the Go kubelet.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from msgspec import Struct

from pykubelet.kubelet.actuate.cri_messages.labels import container_hash
from pykubelet.kubelet.actuate.podruntime.plan import explanations
from pykubelet.kubelet.actuate.podruntime.plan.init_containers import plan_init
from pykubelet.kubelet.actuate.podruntime.plan.restart import (
    current,
    restarts_after_failure,
    restarts_all,
    should_start,
)
from pykubelet.kubelet.actuate.podruntime.podruntime_types import (
    ContainerKill,
    ContainerReset,
    KillReason,
    PodActions,
)
from pykubelet.kubelet.types.ids import ContainerID, SandboxID
from pykubelet.kubelet.types.probes import ContainerProbes, ProbeResult
from pykubelet.kubelet.types.reports.decisions import Decision, Topic
from pykubelet.kubelet.types.runtime import ContainerState, ContainerStatus, PodRuntimeStatus
from pykubelet.models.core_v1 import Container, Pod

Probes = Mapping[ContainerID, ContainerProbes]


@dataclass(frozen=True, slots=True)
class SandboxVerdict:
    """Whether the pod can use its existing sandbox."""

    usable: bool
    id: SandboxID | None = None
    attempt: int = 0
    """Attempt number of that sandbox, or of the one to create."""
    reason: str = field(default="", compare=False)
    """The reason why it cannot be used."""


def compute_pod_actions(pod: Pod, status: PodRuntimeStatus, probes: Probes) -> PodActions:
    """Compute the actions that bring the pod one step nearer to its desired state; repeatable at any moment.

    ``probes`` has the current probe results by container id; a container without an entry has no result yet.
    """
    sandbox = judge_sandbox(pod, status)
    if not sandbox.usable or sandbox.id is None:
        return _with_new_sandbox(pod, status, sandbox)
    reset = _resets(pod, status, sandbox.id)
    if reset:
        why = tuple(
            Decision(Topic.CONTAINER, name, "remove", "a restart rule restarts all containers of the pod")
            for name in dict.fromkeys(each.name for each in reset)
        )
        return PodActions(attempt=sandbox.attempt, sandbox_id=sandbox.id, reset=reset, decisions=why)
    return _in_sandbox(pod, status, probes, sandbox)


def judge_sandbox(pod: Pod, status: PodRuntimeStatus) -> SandboxVerdict:
    """Check the newest sandbox: usable if it is the only ready one, has the right network mode and an address.

    One that a person has requested to be replaced is not usable.
    """
    if not status.sandboxes:
        return SandboxVerdict(usable=False, reason="the pod has no sandbox yet")
    newest = status.sandboxes[0]
    host_network = bool(pod.spec.host_network)
    if not newest.ready:
        reason = "its sandbox does not run"
    elif newest.restart_requested:
        reason = "a restart of the pod was requested"
    elif sum(s.ready for s in status.sandboxes) != 1:
        reason = "more than one of its sandboxes runs"
    elif newest.host_network != host_network:
        reason = "its sandbox has another network mode"
    elif not host_network and not newest.ips:
        reason = "its sandbox has no address"
    else:
        return SandboxVerdict(True, newest.id, newest.attempt)
    return SandboxVerdict(False, newest.id, max(s.attempt for s in status.sandboxes) + 1, reason)


def _with_new_sandbox(pod: Pod, status: PodRuntimeStatus, sandbox: SandboxVerdict) -> PodActions:
    """Kill the pod and start it in a new sandbox, unless all its containers have completed."""
    why = explanations.of_end(f"{sandbox.reason}, and its containers are not restarted")
    end = PodActions(attempt=sandbox.attempt, sandbox_id=sandbox.id, kill_pod=True, decisions=why)
    # A pod that never restarts has had its run once a container was started.
    has_run = any(c.state is not ContainerState.CREATED for c in status.containers)
    if has_run and not restarts_after_failure(pod):
        return end
    start = tuple(c for c in pod.spec.containers if not _has_succeeded(pod, c, status))
    ran_before = any(_known_attempt(status, c.name) for c in pod.spec.containers)
    if not start and ran_before:
        return end
    first_init = pod.spec.init_containers[:1]
    starts = (Decision(Topic.CONTAINER, c.name, "start", "in the new sandbox") for c in first_init or start)
    return PodActions(
        attempt=sandbox.attempt,
        sandbox_id=sandbox.id,
        kill_pod=True,
        create_sandbox=True,
        start_init=first_init,
        start=() if first_init else start,
        decisions=(Decision(Topic.SANDBOX, "", "create", sandbox.reason), *starts),
    )


def _has_succeeded(pod: Pod, container: Container, status: PodRuntimeStatus) -> bool:
    """Whether a container with restart policy OnFailure has succeeded."""
    if (container.restart_policy or pod.spec.restart_policy) != "OnFailure":
        return False
    latest = status.latest(container.name)
    return latest is not None and latest.state is ContainerState.EXITED and latest.exit_code == 0


def _known_attempt(status: PodRuntimeStatus, name: str) -> bool:
    latest = status.latest(name)
    return latest is not None and latest.state is not ContainerState.UNKNOWN


def _resets(pod: Pod, status: PodRuntimeStatus, sandbox: SandboxID) -> tuple[ContainerReset, ...]:
    """All containers in the order of their removal, if the exit of one restarts the whole pod in place.

    The containers that triggered it come last: while one exists, an interrupted reset is continued.
    """
    specs = {c.name: c for c in (*pod.spec.containers, *pod.spec.init_containers)}
    ended = [
        c for name, spec in specs.items() if (c := current(status, name, sandbox)) is not None and restarts_all(spec, c)
    ]
    if not ended:
        return ()
    causes: list[ContainerReset] = []
    others: list[ContainerReset] = []
    for name, spec in specs.items():
        for attempt in status.attempts(name):
            reset = ContainerReset(attempt.id, name, running=attempt.state is not ContainerState.EXITED)
            (causes if restarts_all(spec, attempt) else others).append(reset)
    return (*others, *causes)


def _in_sandbox(pod: Pod, status: PodRuntimeStatus, probes: Probes, sandbox: SandboxVerdict) -> PodActions:
    """Actions in a usable sandbox: containers to kill and to start."""
    assert sandbox.id is not None
    base = PodActions(attempt=sandbox.attempt, sandbox_id=sandbox.id)
    leftovers = _leftovers(status, sandbox.id)
    if leftovers:
        return replace(base, kill=leftovers, decisions=explanations.of_kills(leftovers))
    init = plan_init(pod, status, probes, sandbox.id)
    if init.failed:
        why = explanations.of_end("an init container has failed, and is not restarted")
        return replace(base, kill_pod=True, decisions=why)
    attempts = [(c, current(status, c.name, sandbox.id)) for c in pod.spec.init_containers]
    decisions = list(explanations.of_init(pod, attempts, init.start, init.kill))
    kill = list(init.kill)
    # Ephemeral containers run once, and may run before the pod is initialized.
    ephemeral = tuple(
        c
        for c in pod.spec.ephemeral_containers
        if (attempt := current(status, c.name)) is None or attempt.state is ContainerState.CREATED
    )
    decisions += (explanations.of_container(pod, c, current(status, c.name), start=True, kill=None) for c in ephemeral)
    start: list[Container] = []
    if init.initialized:
        keep = False
        for container in pod.spec.containers:
            attempt = current(status, container.name)
            verdict = _container(pod, container, attempt, probes)
            decisions.append(explanations.of_container(pod, container, attempt, start=verdict.start, kill=verdict.kill))
            keep = keep or verdict.keep
            if verdict.start:
                start.append(container)
            if verdict.kill is not None:
                kill.append(verdict.kill)
        if not keep and not start:
            why = explanations.of_end("all its containers have ended, and none is restarted")
            return replace(base, kill_pod=True, decisions=(*decisions, *why))
    else:
        decisions += explanations.of_waiting(pod.spec.containers)
    return replace(
        base,
        kill=tuple(kill),
        start_ephemeral=ephemeral,
        start_init=init.start,
        start=tuple(start),
        decisions=tuple(decisions),
    )


class _Verdict(Struct, frozen=True):
    """Actions for one ordinary container."""

    keep: bool = False
    start: bool = False
    kill: ContainerKill | None = None


def _container(pod: Pod, container: Container, attempt: ContainerStatus | None, probes: Probes) -> _Verdict:
    """Actions for an ordinary container of an initialized pod."""
    if attempt is None or attempt.state is not ContainerState.RUNNING:
        start = should_start(pod, container, attempt)
        if start and attempt is not None and attempt.state is ContainerState.UNKNOWN:
            # The container may be running: without the kill there could be two.
            message = f'Container is in "{attempt.state}" state, try killing it before restart'
            return _Verdict(start=True, kill=ContainerKill(attempt.id, container.name, message))
        return _Verdict(start=start)
    results = probes.get(attempt.id, ContainerProbes())
    restart = restarts_after_failure(pod, container)
    reason = KillReason.UNKNOWN
    if attempt.hash != container_hash(container):
        # The spec has changed: the container is restarted whatever the restart policy.
        message, restart = f"Container {container.name} definition changed", True
    elif attempt.restart_requested:
        message = f"Container {container.name} is to be restarted by request"
    elif results.liveness is ProbeResult.FAILURE:
        message, reason = f"Container {container.name} failed liveness probe", KillReason.LIVENESS_PROBE
    elif results.startup is ProbeResult.FAILURE:
        message, reason = f"Container {container.name} failed startup probe", KillReason.STARTUP_PROBE
    else:
        return _Verdict(keep=True)
    if restart:
        message += ", will be restarted"
    return _Verdict(start=restart, kill=ContainerKill(attempt.id, container.name, message, reason))


def _leftovers(status: PodRuntimeStatus, sandbox: SandboxID) -> tuple[ContainerKill, ...]:
    """Kill running attempts that must not run: in an earlier sandbox, or next to a newer one of the same container.

    They should not exist. While they do, nothing is started: a container must never run twice.
    """
    seen: set[str] = set()
    kills: list[ContainerKill] = []
    for attempt in status.running:
        if attempt.sandbox_id != sandbox or attempt.name in seen:
            kills.append(
                ContainerKill(attempt.id, attempt.name, f"Container {attempt.name} is left from an earlier start")
            )
        else:
            seen.add(attempt.name)
    return tuple(kills)
