"""Goals of commands that wait: whether a pod has reached one, can never reach it, or why it has not yet. Pure.

Works on the JSON objects of the agent's answers, because the models of Kubernetes objects take longer to import than a
command may take.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, TypeAlias

from pykubelet.base.errors import Invalid


class Progress(Enum):
    """Progress of a pod on the way to a goal."""

    PENDING = auto()
    REACHED = auto()
    MISSED = auto()
    """The pod has ended in a way that excludes the goal."""


@dataclass(frozen=True, slots=True)
class GoalVerdict:
    """The progress of a pod, and for people why it is not further."""

    progress: Progress
    why: str = ""


Pod: TypeAlias = Mapping[str, Any]
"""A pod as JSON object."""
Goal: TypeAlias = Callable[[Pod | None], GoalVerdict]
"""Judges a pod; None: the agent does not have it."""

_REACHED = GoalVerdict(Progress.REACHED)
_ABSENT = GoalVerdict(Progress.PENDING, "the agent does not have the pod yet")
_PATH: Final = r"\{?(\.?[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*|\[\d+\])*)\}?"
_PART: Final = r"[A-Za-z_][A-Za-z0-9_]*|\[\d+\]"


def ready(pod: Pod | None) -> GoalVerdict:
    """The pod's condition Ready is True."""
    return condition("Ready", "True")(pod)


def settled(pod: Pod | None) -> GoalVerdict:
    """The pod is ready, or has succeeded: what an applied pod is meant to reach."""
    return _REACHED if pod is not None and phase_of(pod) == "Succeeded" else ready(pod)


def completed(pod: Pod | None) -> GoalVerdict:
    """All containers have ended with success."""
    if pod is None:
        return _ABSENT
    if phase_of(pod) == "Succeeded":
        return _REACHED
    progress = Progress.MISSED if phase_of(pod) == "Failed" else Progress.PENDING
    return GoalVerdict(progress, reason_of(pod))


def deleted(pod: Pod | None) -> GoalVerdict:
    """The goal that the pod does not exist any more."""
    return _REACHED if pod is None else GoalVerdict(Progress.PENDING, f"it still exists: {reason_of(pod)}")


def created(pod: Pod | None) -> GoalVerdict:
    """The agent has the pod."""
    return _ABSENT if pod is None else _REACHED


def restarted(before: Pod, container: str) -> Goal:
    """Return the goal that a container (empty: each ordinary one) has restarted since ``before``, and the pod is
    ready.
    """
    counts = {c["name"]: _restarts(c) for c in _statuses(before) if not container or c["name"] == container}
    if not container:
        counts = {c["name"]: counts[c["name"]] for c in _status(before).get("containerStatuses", ())}

    def judge(pod: Pod | None) -> GoalVerdict:
        if pod is None:
            return GoalVerdict(Progress.MISSED, "it was removed")
        late = [c["name"] for c in _statuses(pod) if c["name"] in counts and _restarts(c) <= counts[c["name"]]]
        return GoalVerdict(Progress.PENDING, f"not restarted yet: {', '.join(late)}") if late else ready(pod)

    return judge


def phase_of(pod: Pod) -> str:
    """Return the phase of a pod; empty: it has none yet."""
    return str(_status(pod).get("phase", ""))


def _status(pod: Pod) -> Mapping[str, Any]:
    status: Mapping[str, Any] = pod.get("status") or {}
    return status


def _statuses(pod: Pod) -> Sequence[Mapping[str, Any]]:
    status = _status(pod)
    return (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ()))


def _restarts(status: Mapping[str, Any]) -> int:
    return int(status.get("restartCount", 0))


def condition(name: str, value: str) -> Goal:
    """Return the goal that a condition of the pod has a status, as of ``kubectl wait --for=condition=NAME=STATUS``."""

    def judge(pod: Pod | None) -> GoalVerdict:
        if pod is None:
            return _ABSENT
        for each in _status(pod).get("conditions", ()):
            if (each["type"].lower(), each["status"].lower()) == (name.lower(), value.lower()):
                return _REACHED
        ended = phase_of(pod) in ("Succeeded", "Failed")
        return GoalVerdict(Progress.MISSED if ended else Progress.PENDING, reason_of(pod))

    return judge


def field_value(path: str, value: str | None) -> Goal:
    """Return the goal that a field has a value (None: any), as of ``kubectl wait --for=jsonpath='{.status.phase}'=X``.

    Invalid: the path is not one of names and indexes.
    """
    match = re.fullmatch(_PATH, path.strip())
    if match is None:
        raise Invalid(f"jsonpath {path!r} is not supported; name fields only, for example {{.status.phase}}")
    parts = re.findall(_PART, match[1])

    def judge(pod: Pod | None) -> GoalVerdict:
        if pod is None:
            return _ABSENT
        found: Any = pod
        for part in parts:
            found = _step(found, part)
        text = _shown(found)
        if text if value is None else text == value:
            return _REACHED
        return GoalVerdict(Progress.PENDING, f"{match[1]} is {text or 'not set'}")

    return judge


def _step(value: Any, part: str) -> Any:
    if part.startswith("["):
        index = int(part[1:-1])
        return value[index] if isinstance(value, Sequence) and index < len(value) else None
    return value.get(part) if isinstance(value, Mapping) else None


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def parse_goal(text: str) -> Goal:
    """Parse the value of ``--for``. Invalid: it is unknown; the message lists the forms."""
    word, _, rest = text.partition("=")
    plain: dict[str, Goal] = {
        "ready": ready,
        "completed": completed,
        "deleted": deleted,
        "delete": deleted,
        "create": created,
    }
    if text in plain:
        return plain[text]
    if word == "condition" and rest:
        name, _, value = rest.partition("=")
        return condition(name, value or "True")
    if word == "jsonpath" and rest:
        path, equals, value = rest.partition("=")
        return field_value(path.strip("'\""), value.strip("'\"") if equals else None)
    raise Invalid(
        f"--for={text} is unknown; use ready, completed, deleted, condition=Ready, delete, create "
        "or jsonpath='{.status.phase}'=Running"
    )


def reason_of(pod: Pod) -> str:
    """Return why a pod is where it is: the first container that waits or has failed, else the pod's own reason."""
    status = _status(pod)
    for container in _statuses(pod):
        state = container.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
        if waiting.get("reason", "") not in ("", "PodInitializing", "ContainerCreating"):
            return _joined(f"container {container['name']}: {waiting['reason']}", waiting.get("message", ""))
        if ended.get("exitCode"):
            cause = f"container {container['name']}: {ended.get('reason') or 'Error'}"
            return _joined(f"{cause}, exit code {ended['exitCode']}", ended.get("message", ""))
    if status.get("reason"):
        return _joined(status["reason"], status.get("message", ""))
    phase = phase_of(pod)
    unready = [c["name"] for c in status.get("containerStatuses", ()) if not c.get("ready")]
    names = f", not ready: {', '.join(unready)}" if unready and phase == "Running" else ""
    return f"phase {phase or 'Pending'}{names}"


def _joined(reason: str, message: str) -> str:
    return f"{reason}: {message.strip()}" if message.strip() else reason
