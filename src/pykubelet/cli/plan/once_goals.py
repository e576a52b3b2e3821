"""Outcome of a pod that runs once: its output, its exit status, or the reason why it cannot start. Pure."""

from typing import Final

from pykubelet.models.core_v1 import ContainerState, Pod

_HOPELESS: Final = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "InvalidImageName",
        "CreateContainerConfigError",
        "CreateContainerError",
    }
)
"""Waiting reasons after which a person has to do something, most probably."""


def started_containers(pod: Pod) -> list[str]:
    """Return the containers that have a log, init containers first."""
    names = []
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        state = status.state or ContainerState()
        before = status.last_state or ContainerState()
        ended = state.terminated is not None and bool(status.container_id)
        if ended or state.running is not None or before.terminated is not None:
            names.append(status.name)
    return names


def hopeless(pod: Pod) -> str:
    """Return why a pod will not start without help; empty if it may."""
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        waiting = status.state.waiting if status.state else None
        if waiting is not None and waiting.reason in _HOPELESS:
            return f"container {status.name}: {waiting.reason}: {waiting.message}"
    return ""


def exit_status(pod: Pod) -> int:
    """Return the exit code of the first container that failed, else 0; 1 if the pod failed without one."""
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        ended = status.state.terminated if status.state else None
        if ended is not None and ended.exit_code:
            return ended.exit_code
    return 1 if pod.status.phase == "Failed" else 0
