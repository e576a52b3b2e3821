"""Computes which init containers and sidecars to start and kill. Pure; KEP-753 (sidecars).

Init containers are checked from the last to the first. All init containers before the last one with an attempt in the
sandbox have completed, and only the sidecars among them still matter. So an init container whose finished attempt was
garbage-collected does not run again.
"""

from collections.abc import Mapping

from msgspec import Struct

from pykubelet.kubelet.actuate.cri_messages.labels import container_hash
from pykubelet.kubelet.actuate.podruntime.plan.restart import (
    current,
    restarts_after_failure,
    should_start,
)
from pykubelet.kubelet.actuate.podruntime.podruntime_types import ContainerKill, KillReason
from pykubelet.kubelet.types.ids import ContainerID, SandboxID
from pykubelet.kubelet.types.podspec import is_sidecar
from pykubelet.kubelet.types.probes import ContainerProbes, ProbeResult
from pykubelet.kubelet.types.runtime import ContainerState, ContainerStatus, PodRuntimeStatus
from pykubelet.models.core_v1 import Container, Pod

Probes = Mapping[ContainerID, ContainerProbes]


class InitPlan(Struct, frozen=True):
    """State of the pod's initialization and the next actions."""

    initialized: bool = False
    """All init containers have completed: ordinary containers may run."""
    failed: bool = False
    """An init container has failed and is not restarted: the pod has failed."""
    start: tuple[Container, ...] = ()
    kill: tuple[ContainerKill, ...] = ()


class _Verdict(Struct, frozen=True):
    """Actions for one init container."""

    done: bool = False
    """The next init container may start."""
    start: bool = False
    failed: bool = False
    kill: ContainerKill | None = None


def plan_init(pod: Pod, status: PodRuntimeStatus, probes: Probes, sandbox: SandboxID) -> InitPlan:
    """Compute the next step of the initialization of a pod, and the actions for its sidecars.

    Only attempts in this sandbox count: in a new sandbox all init containers run again.
    """
    containers = pod.spec.init_containers
    passed = _passed(pod, status, sandbox)
    initialized = passed or not containers
    start: list[Container] = []
    kill: list[ContainerKill] = []
    first = tuple(containers[:1])
    for index in reversed(range(len(containers))):
        container = containers[index]
        sidecar = is_sidecar(container)
        attempt = current(status, container.name, sandbox)
        if attempt is None or attempt.state is ContainerState.CREATED:
            if attempt is not None:
                # Pre-created or not started yet: the containers before it decide whether it may start.
                first = (container,)
            if passed and sidecar:
                start.append(container)
            continue
        if passed and not sidecar:
            continue
        verdict = (_sidecar if sidecar else _run_once)(pod, container, attempt, probes)
        if verdict.failed:
            return InitPlan(failed=True)
        if verdict.kill is not None:
            kill.append(verdict.kill)
        if verdict.done:
            if index == len(containers) - 1:
                initialized = True
            elif not passed:
                start.append(containers[index + 1])
        if verdict.start:
            start.append(container)
        passed = True
    if not passed:
        start += first
    return InitPlan(initialized=initialized, start=tuple(reversed(start)), kill=tuple(reversed(kill)))


def _passed(pod: Pod, status: PodRuntimeStatus, sandbox: SandboxID) -> bool:
    """Whether the pod was initialized: an ordinary container has run, or one exists and no init container does."""
    ordinary = [a for c in pod.spec.containers if (a := current(status, c.name, sandbox)) is not None]
    if any(a.state is not ContainerState.CREATED for a in ordinary):
        return True
    init = (current(status, c.name, sandbox) for c in pod.spec.init_containers)
    return bool(ordinary) and not any(a is not None and a.state is not ContainerState.CREATED for a in init)


def _run_once(pod: Pod, container: Container, attempt: ContainerStatus, _: Probes) -> _Verdict:
    """Actions for an init container that has to complete before the next one starts."""
    match attempt.state:
        case ContainerState.RUNNING | ContainerState.CREATED:
            return _Verdict()
        case ContainerState.UNKNOWN:
            if not restarts_after_failure(pod, container):
                return _Verdict(failed=True)
            return _Verdict(start=True, kill=_kill_unknown(attempt))
        case ContainerState.EXITED:
            # A container whose processes were OOM-killed may exit with 0 and has failed nevertheless.
            if attempt.exit_code == 0 and attempt.reason != "OOMKilled":
                return _Verdict(done=True)
            again = should_start(pod, container, attempt)
            return _Verdict(start=again, failed=not again)


def _sidecar(_: Pod, container: Container, attempt: ContainerStatus, probes: Probes) -> _Verdict:
    """Actions for a sidecar: the next init container waits until it has started, and it is kept running."""
    match attempt.state:
        case ContainerState.RUNNING:
            return _running_sidecar(container, attempt, probes)
        case ContainerState.CREATED | ContainerState.EXITED:
            return _Verdict(start=True)
        case ContainerState.UNKNOWN:
            return _Verdict(start=True, kill=_kill_unknown(attempt))


def _running_sidecar(container: Container, attempt: ContainerStatus, probes: Probes) -> _Verdict:
    name = container.name
    results = probes.get(attempt.id, ContainerProbes())
    if attempt.restart_requested:
        kill = ContainerKill(attempt.id, name, f"Init container {name} is to be restarted by request")
        return _Verdict(done=True, start=True, kill=kill)
    if container.startup_probe is not None and results.startup is not ProbeResult.SUCCESS:
        if results.startup is not ProbeResult.FAILURE:
            return _Verdict()
        message = f"Init container {name} failed startup probe"
        kill = ContainerKill(attempt.id, name, message, KillReason.STARTUP_PROBE)
        return _Verdict(start=True, kill=kill)
    if attempt.hash != container_hash(container):
        kill = ContainerKill(attempt.id, name, f"Init container {name} definition changed")
        return _Verdict(done=True, start=True, kill=kill)
    if container.liveness_probe is not None and results.liveness is ProbeResult.FAILURE:
        message = f"Init container {name} failed liveness probe"
        kill = ContainerKill(attempt.id, name, message, KillReason.LIVENESS_PROBE)
        return _Verdict(done=True, start=True, kill=kill)
    return _Verdict(done=True)


def _kill_unknown(attempt: ContainerStatus) -> ContainerKill:
    message = f'Init container is in "{attempt.state}" state, try killing it before restart'
    return ContainerKill(attempt.id, attempt.name, message)
