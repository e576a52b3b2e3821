"""Whether a container has to be started, by its attempts in the runtime; for exit codes see `types/restart.py`."""

from pykubelet.kubelet.types.ids import SandboxID
from pykubelet.kubelet.types.restart import asks_restart_of_all, restarts_after_exit
from pykubelet.kubelet.types.runtime import ContainerState, ContainerStatus, PodRuntimeStatus
from pykubelet.models.core_v1 import Container, Pod


def current(status: PodRuntimeStatus, name: str, sandbox: SandboxID | None = None) -> ContainerStatus | None:
    """Return the attempt that represents a container: the running one, else the newest.

    A running attempt comes first, so that a newer leftover of an interrupted creation never leads to a second running
    container. With ``sandbox``, only attempts in that sandbox count.
    """
    attempts = [c for c in status.attempts(name) if sandbox is None or c.sandbox_id == sandbox]
    running = next((c for c in attempts if c.state is ContainerState.RUNNING), None)
    return running or (attempts[0] if attempts else None)


def restarts_all(container: Container, status: ContainerStatus) -> bool:
    """Whether a restart rule of the container requires a restart of all containers of the pod for this exit."""
    return status.state is ContainerState.EXITED and asks_restart_of_all(container, status.exit_code)


def restarts_after_failure(pod: Pod, container: Container | None = None) -> bool:
    """Whether a failure without a usable exit code (failed probe, unknown state) leads to a restart.

    Restart rules are not evaluated, since they match exit codes; a container's policy overrides the pod's.
    """
    policy = container.restart_policy if container is not None else ""
    return (policy or pod.spec.restart_policy) != "Never"


def should_start(pod: Pod, container: Container, status: ContainerStatus | None) -> bool:
    """Whether a container in this state has to be started; ``status`` None: it has no attempt in the runtime."""
    if pod.metadata.deletion_timestamp is not None:
        return False
    if status is None:
        return True
    match status.state:
        case ContainerState.RUNNING:
            return False
        case ContainerState.CREATED | ContainerState.UNKNOWN:
            # Created but never started: the start was interrupted. The attempt is replaced.
            return True
        case ContainerState.EXITED:
            return restarts_after_exit(pod, container, status.exit_code)


def next_restart_count(status: PodRuntimeStatus, name: str, from_logs: int) -> int:
    """Return the restart count of the container's next start.

    An attempt that was created but never started does not count. ``from_logs`` is used for a container without any
    attempt in the runtime.
    """
    counts = [c.restart_count + (c.state is not ContainerState.CREATED) for c in status.attempts(name)]
    return max(counts, default=from_logs)
