"""Waits until pods reach a goal, by a watch on the agent's pods, within a time limit."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from pykubelet.base.errors import Permanent
from pykubelet.cli.client.local_api import LocalApi
from pykubelet.cli.client.wait_reasons import failures_of
from pykubelet.cli.plan.pod_goals import Goal, GoalVerdict, Pod, Progress
from pykubelet.cli.terminal import echo

TIMED_OUT = 124
"""The exit status after a timeout, as of timeout(1)."""


@dataclass(frozen=True, slots=True)
class AwaitedPod:
    """One pod that a command waits for."""

    label: str
    """Its name for messages, such as ``pod/demo``."""
    choose: Callable[[Sequence[Pod]], Pod | None]
    """Picks the pod among all pods of the agent."""
    goal: Goal
    done: str = ""
    """Text that is printed after the label when the goal is reached; empty: nothing."""
    namespace: str = ""
    """The pod's namespace, which is shown if pods of several namespaces have the label; empty: unknown."""


@dataclass(slots=True, eq=False)
class _PendingPod:
    """A pod that has not reached its goal; compared by identity, since several may have the same label."""

    label: str
    awaited: AwaitedPod
    verdict: GoalVerdict | None = None
    pod: Pod | None = None


def by_uid(uid: str) -> Callable[[Sequence[Pod]], Pod | None]:
    """Return a choice of the pod with this uid."""
    return lambda pods: next((pod for pod in pods if pod["metadata"]["uid"] == uid), None)


def wait_for_pods(api: LocalApi, awaited: Sequence[AwaitedPod], seconds: float | None) -> None:
    """Return when every pod has reached its goal; ``seconds`` is the limit for all of them, None: no limit.

    Exits with 124 after the limit. Permanent: a pod has ended otherwise. Transient: the agent has stopped.
    """
    waiting = [_PendingPod(label, each) for label, each in zip(_labels(awaited), awaited, strict=True)]
    deadline = None if seconds is None else time.monotonic() + seconds
    pods: dict[str, Pod] = {}
    listed = False
    try:
        for kind, item in api.watch("/api/v1/pods", deadline, sendInitialEvents="true"):
            if kind == "BOOKMARK":
                listed = True
            elif kind == "DELETED":
                pods.pop(item["metadata"]["uid"], None)
            else:
                pods[item["metadata"]["uid"]] = item
            if listed:
                _judge(waiting, tuple(pods.values()))
            if listed and not waiting:
                return
    except TimeoutError:
        _time_out(api, waiting)
    raise Permanent(
        f"the agent at {api.path} has stopped; nothing is known of {', '.join(each.label for each in waiting)}"
    )


def _labels(awaited: Sequence[AwaitedPod]) -> list[str]:
    """Return the labels, with the namespace where pods of several namespaces have the same one."""
    namespaces: dict[str, set[str]] = {}
    for each in awaited:
        namespaces.setdefault(each.label, set()).add(each.namespace)
    return [
        f"{each.label} in namespace {each.namespace}"
        if each.namespace and len(namespaces[each.label]) > 1
        else each.label
        for each in awaited
    ]


def _judge(waiting: list[_PendingPod], pods: Sequence[Pod]) -> None:
    """Take those that have reached their goal out of ``waiting``."""
    for each in list(waiting):
        each.pod = each.awaited.choose(pods)
        each.verdict = verdict = each.awaited.goal(each.pod)
        match verdict.progress:
            case Progress.REACHED:
                waiting.remove(each)
                if each.awaited.done:
                    echo(f"{each.label} {each.awaited.done}")
            case Progress.MISSED:
                raise Permanent(f"{each.label} has ended: {verdict.why}")
            case Progress.PENDING:
                pass


def _time_out(api: LocalApi, waiting: Sequence[_PendingPod]) -> NoReturn:
    for each in waiting:
        why = each.verdict.why if each.verdict is not None else "the agent has not listed its pods"
        if each.pod is not None and why.startswith("phase "):  # its status names no cause
            why = ": ".join((why, *_causes(api, each.pod)))
        echo(f"error: timed out waiting for {each.label}: {why}", err=True)
    raise SystemExit(TIMED_OUT)


def _causes(api: LocalApi, pod: Pod) -> list[str]:
    """Return what the agent says that keeps the pod waiting, as one text or none."""
    failures = failures_of(api, pod)
    return ["; ".join(f"{reason}: {message}" for reason, message in failures)] if failures else []
