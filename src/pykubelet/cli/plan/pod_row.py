"""A pod's row in ``pykubelet get pods``: kubectl's READY, STATUS and RESTARTS (pure)."""

from dataclasses import dataclass

from pykubelet.models.core_v1 import ContainerStatus, Pod


@dataclass(frozen=True, slots=True)
class PodRow:
    """The texts of one row, before alignment."""

    namespace: str
    name: str
    ready: str
    status: str
    restarts: str
    age_seconds: float
    ip: str
    node: str


def pod_row(pod: Pod, now: float) -> PodRow:
    """Return the row of a pod at the Unix time ``now``, by the rules of ``kubectl get pods``."""
    status = pod.status
    created = pod.metadata.creation_timestamp or status.start_time
    ready = sum(c.ready for c in status.container_statuses)
    return PodRow(
        pod.metadata.namespace,
        pod.metadata.name,
        f"{ready}/{len(pod.spec.containers)}",
        pod_status_word(pod),
        _restarts(pod),
        now - created.timestamp() if created else 0.0,
        status.pod_ip or "<none>",
        pod.spec.node_name or "<none>",
    )


def _restarts(pod: Pod) -> str:
    return str(sum(c.restart_count for c in (*pod.status.init_container_statuses, *pod.status.container_statuses)))


def pod_status_word(pod: Pod) -> str:
    """Return the STATUS column: the most significant reason."""
    init = _init_word(pod)
    word = init or pod.status.reason or pod.status.phase or "Unknown"
    if not init:
        word = _containers_word(pod, word)
    if pod.metadata.deletion_timestamp is not None:
        word = "Unknown" if pod.status.reason == "NodeLost" else "Terminating"
    return word


def _init_word(pod: Pod) -> str:
    """Return ``Init:…`` while an init container is not done; empty afterwards."""
    sidecars = {c.name for c in pod.spec.init_containers if c.restart_policy == "Always"}
    total = len(pod.spec.init_containers)
    for index, container in enumerate(pod.status.init_container_statuses):
        state = container.state
        if state is None:
            continue
        if state.terminated and state.terminated.exit_code == 0:
            continue
        if container.name in sidecars and container.started:
            continue
        if state.terminated:
            return f"Init:{_terminated_word(container)}"
        if state.waiting and state.waiting.reason and state.waiting.reason != "PodInitializing":
            return f"Init:{state.waiting.reason}"
        return f"Init:{index}/{total}"
    return ""


def _containers_word(pod: Pod, word: str) -> str:
    running = False
    for container in reversed(pod.status.container_statuses):
        state = container.state
        if state is None:
            continue
        if state.waiting and state.waiting.reason:
            word = state.waiting.reason
        elif state.terminated:
            word = _terminated_word(container)
        elif state.running and container.ready:
            running = True
    if word == "Completed" and running:
        ready = any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)
        return "Running" if ready else "NotReady"
    return word


def _terminated_word(container: ContainerStatus) -> str:
    ended = container.state.terminated if container.state else None
    if ended is None:
        return "Unknown"
    if ended.reason:
        return ended.reason
    return f"Signal:{ended.signal}" if ended.signal else f"ExitCode:{ended.exit_code}"
