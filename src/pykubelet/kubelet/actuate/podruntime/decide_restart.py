"""Whether a container is to be started, from what the runtime has of it; ends are judged in `types/restart.py`."""

from pykubelet.kubelet.types.ids import SandboxID
from pykubelet.kubelet.types.restart import asks_restart_of_all, restarts_after_exit
from pykubelet.kubelet.types.runtime import ContainerState, ContainerStatus, PodRuntimeStatus
from pykubelet.models.core_v1 import Container, Pod


def current(status: PodRuntimeStatus, name: str, sandbox: SandboxID | None = None) -> ContainerStatus | None:
    """The attempt that stands for a container: the one that runs, else the newest.

    A running one comes first so that a leftover of an interrupted creation, though newer, never makes us start a
    second. With ``sandbox``, only attempts made in that sandbox count.
    """
    attempts = [c for c in status.containers if c.name == name and (sandbox is None or c.sandbox_id == sandbox)]
    running = next((c for c in attempts if c.state is ContainerState.RUNNING), None)
    return running or (attempts[0] if attempts else None)


def restarts_all(container: Container, status: ContainerStatus) -> bool:
    """Whether the way this container ended asks for a restart of all containers of the pod."""
    return status.state is ContainerState.EXITED and asks_restart_of_all(container, status.exit_code)


def restarts_after_failure(pod: Pod, container: Container | None = None) -> bool:
    """Whether a failure without a usable exit code (failed probe, unknown state) leads to a restart.

    Rules are not looked at, since they ask for exit codes; a policy of the container comes before the pod's.
    """
    policy = container.restart_policy if container is not None else ""
    return (policy or pod.spec.restart_policy) != "Never"


def should_start(pod: Pod, container: Container, status: ContainerStatus | None) -> bool:
    """Whether a container that is in this state (None: the runtime has no trace of it) has to be started."""
    if pod.metadata.deletion_timestamp is not None:
        return False
    if status is None:
        return True
    match status.state:
        case ContainerState.RUNNING:
            return False
        case ContainerState.CREATED | ContainerState.UNKNOWN:
            # Created but never started: whoever made it was interrupted. It is replaced.
            return True
        case ContainerState.EXITED:
            return restarts_after_exit(pod, container, status.exit_code)


def next_restart_count(status: PodRuntimeStatus, name: str, from_logs: int) -> int:
    """How often the container will have been restarted with its next start.

    An attempt that was made but never started does not count. ``from_logs`` is for a container of which the runtime
    knows nothing any more.
    """
    attempts = [c for c in status.containers if c.name == name]
    counts = [c.restart_count + (c.state is not ContainerState.CREATED) for c in attempts]
    return max(counts, default=from_logs)
