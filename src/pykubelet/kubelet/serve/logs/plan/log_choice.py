"""Decides which log file a request means, and whether the container may still write to it. Pure."""

from collections.abc import Sequence
from typing import Final

from pykubelet.base.errors import Invalid, NotFound
from pykubelet.kubelet.types.podspec import each_container, find_container, is_sidecar
from pykubelet.kubelet.types.restart import restarts_after_exit
from pykubelet.kubelet.types.runtime import ContainerKind
from pykubelet.models.core_v1 import ContainerState, ContainerStatus, Pod

_NO_STATE: Final = ContainerState()
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_WAITS: Final = {"ErrImagePull": "image can't be pulled", "ImagePullBackOff": "trying and failing to pull image"}
"""Words of the Go kubelet instead of the reason, by the reason; tools match them."""


def container_name(pod: Pod, wanted: str) -> str:
    """Return the container that a request means; the only one if it names none. Invalid, listing the containers."""
    names = [container.name for _, container in each_container(pod)]
    if wanted:
        if wanted not in names:
            raise Invalid(f"container {wanted} is not valid for pod {pod.metadata.name}; it has: {' '.join(names)}")
        return wanted
    if len(names) > 1:
        listed = " ".join(names)
        raise Invalid(f"a container name must be specified for pod {pod.metadata.name}, choose one of: [{listed}]")
    return names[0]


def container_status(pod: Pod, name: str) -> ContainerStatus | None:
    """Return the status of a container of any kind; None if it has none."""
    status = pod.status
    groups = (status.container_statuses, status.init_container_statuses, status.ephemeral_container_statuses)
    return next((c for group in groups for c in group if c.name == name), None)


def choose_attempt(pod: Pod, container: str, attempts: Sequence[int], *, previous: bool) -> int:
    """Return the number of the log file; ``attempts`` are the existing ones, newest first.

    A container that waits for its restart shows the log of its last run. Invalid: the container has not run yet, or
    there is no previous run.
    """
    name = pod.metadata.name
    status = container_status(pod, container)
    state = (status.state if status else None) or _NO_STATE
    ran_before = bool(status and status.last_state and status.last_state.terminated)
    if previous:
        if not ran_before:
            raise Invalid(f'previous terminated container "{container}" in pod "{name}" not found')
        position = 1 if state.waiting is None else 0
    elif state.waiting is not None and not ran_before:
        why = _WAITS.get(state.waiting.reason, state.waiting.reason)
        raise Invalid(f'container "{container}" in pod "{name}" is waiting to start: {why}')
    else:
        position = 0
    if position >= len(attempts):
        raise NotFound(f'the log of container "{container}" in pod "{name}" no longer exists')
    return attempts[position]


def may_write_more(pod: Pod | None, container: str) -> bool:
    """Return whether a container may still write to its log: it runs, or is going to run again."""
    if pod is None or pod.status.phase in _ENDED:
        return False
    found = find_container(pod, container)
    status = container_status(pod, container)
    state = (status.state if status else None) or _NO_STATE
    if found is None or state.running is not None:
        return found is not None
    kind, spec = found
    if pod.metadata.deletion_timestamp is not None or kind is ContainerKind.EPHEMERAL:
        return False
    if state.terminated is None:
        return True
    if kind is ContainerKind.INIT and not is_sidecar(spec) and state.terminated.exit_code == 0:
        return False
    return restarts_after_exit(pod, spec, state.terminated.exit_code)
