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
    ready = sum(bool(each.get("ready")) for each in _all(status, "containerStatuses"))
    return PodRow(
        meta.get("namespace", ""),
        meta.get("name", ""),
        f"{ready}/{len(_all(spec, 'containers'))}",
        pod_status_word(pod),
        _restarts(status),
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


def _restarts(status: Item) -> str:
    ends = (*_all(status, "initContainerStatuses"), *_all(status, "containerStatuses"))
    return str(sum(each.get("restartCount", 0) for each in ends))


def pod_status_word(pod: Item) -> str:
    """Return the STATUS column of a pod's JSON object: the most significant reason."""
    status = _part(pod, "status")
    init = _init_word(_part(pod, "spec"), status)
    word = init or status.get("reason") or status.get("phase") or "Unknown"
    if not init:
        word = _containers_word(status, word)
    if pod["metadata"].get("deletionTimestamp") is not None:
        word = "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return str(word)


def _init_word(spec: Item, status: Item) -> str:
    """Return ``Init:…`` while an init container is not done; empty afterwards."""
    declared = _all(spec, "initContainers")
    sidecars = {each.get("name") for each in declared if each.get("restartPolicy") == "Always"}
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
    running = False
    for container in reversed(_all(status, "containerStatuses")):
        state = _part(container, "state")
        waiting = _part(state, "waiting").get("reason")
        if waiting:
            word = waiting
        elif state.get("terminated") is not None:
            word = _terminated_word(state["terminated"])
        elif state.get("running") is not None and container.get("ready"):
            running = True
    if word == "Completed" and running:
        ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in _all(status, "conditions"))
        return "Running" if ready else "NotReady"
    return word


def _terminated_word(ended: Item) -> str:
    if reason := ended.get("reason"):
        return str(reason)
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"
