"""A pod's row in ``pykubelet get pods``: kubectl's READY, STATUS and RESTARTS (pure).

Reads the pod's JSON object, because importing the models takes longer than the rest of ``get``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

Item = Mapping[str, Any]
"""A JSON object of the API; fields without a value are absent."""


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


def pod_row(pod: Item, now: float) -> PodRow:
    """Return the row of a pod at the Unix time ``now``, by the rules of ``kubectl get pods``."""
    meta, spec, status = pod["metadata"], _part(pod, "spec"), _part(pod, "status")
    created = meta.get("creationTimestamp") or status.get("startTime")
    ready, containers = _ready(spec, status)
    return PodRow(
        meta.get("namespace", ""),
        meta.get("name", ""),
        f"{ready}/{containers}",
        pod_status_word(pod),
        str(_restarts(spec, status)),
        now - datetime.fromisoformat(created).timestamp() if created else 0.0,
        status.get("podIP") or "<none>",
        spec.get("nodeName") or "<none>",
    )


def _part(item: Item, field: str) -> Item:
    """Return the object in a field; a missing one is empty."""
    return item.get(field) or {}


def _all(item: Item, field: str) -> list[Item]:
    """Return the objects of a list; a missing one is empty."""
    return item.get(field) or []


def _ready(spec: Item, status: Item) -> tuple[int, int]:
    """Return the number of ready containers and of all containers; sidecars count, other init containers do not."""
    sidecars = _sidecars(spec)
    counted = [
        *(each for each in _all(status, "initContainerStatuses") if each.get("name") in sidecars),
        *_all(status, "containerStatuses"),
    ]
    return sum(bool(each.get("ready")) for each in counted), len(_all(spec, "containers")) + len(sidecars)


def _restarts(spec: Item, status: Item) -> int:
    """Return the restarts: of the init containers while one of them is not done, then of sidecars and containers."""
    counted = _all(status, "initContainerStatuses")
    if _is_initialized(spec, status):
        sidecars = _sidecars(spec)
        counted = [*(each for each in counted if each.get("name") in sidecars), *_all(status, "containerStatuses")]
    return sum(each.get("restartCount", 0) for each in counted)


def _sidecars(spec: Item) -> set[str]:
    """Return the names of the init containers that run beside the containers."""
    return {each["name"] for each in _all(spec, "initContainers") if each.get("restartPolicy") == "Always"}


def _is_initialized(spec: Item, status: Item) -> bool:
    return not _init_word(spec, status) or _holds(status, "Initialized")


def _holds(status: Item, condition: str) -> bool:
    return any(each.get("type") == condition and each.get("status") == "True" for each in _all(status, "conditions"))


def pod_status_word(pod: Item) -> str:
    """Return the STATUS column of a pod's JSON object: the most significant reason."""
    spec, status = _part(pod, "spec"), _part(pod, "status")
    word = _init_word(spec, status) or status.get("reason") or status.get("phase") or "Unknown"
    if _is_initialized(spec, status):
        word = _containers_word(status, word)
    if pod["metadata"].get("deletionTimestamp") is not None:
        if status.get("reason") == "NodeLost":
            word = "Unknown"
        elif status.get("phase") not in ("Succeeded", "Failed"):
            word = "Terminating"
    return str(word)


def _init_word(spec: Item, status: Item) -> str:
    """Return ``Init:…`` while an init container is not done; empty afterwards."""
    declared = _all(spec, "initContainers")
    sidecars = _sidecars(spec)
    for index, container in enumerate(_all(status, "initContainerStatuses")):
        state = container.get("state")
        if state is None:
            continue
        ended, waiting = state.get("terminated"), _part(state, "waiting").get("reason")
        if ended is not None and ended.get("exitCode", 0) == 0:
            continue
        if container.get("name") in sidecars and container.get("started"):
            continue
        if ended is not None:
            return f"Init:{_terminated_word(ended)}"
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{index}/{len(declared)}"
    return ""


def _containers_word(status: Item, word: str) -> str:
    running, error = False, ""
    for container in reversed(_all(status, "containerStatuses")):
        state = _part(container, "state")
        waiting, ended = _part(state, "waiting").get("reason"), state.get("terminated")
        if waiting:
            word = waiting
        elif ended is not None:
            word = _terminated_word(ended)
            error = word if ended.get("exitCode", 0) else error
        elif state.get("running") is not None and container.get("ready"):
            running = True
    if word != "Completed":
        return word
    if running and _holds(status, "Ready"):
        return "Running"
    return error or ("NotReady" if running else word)


def _terminated_word(ended: Item) -> str:
    if reason := ended.get("reason"):
        return str(reason)
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"
