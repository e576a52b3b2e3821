"""Waits until pods reach a goal, by a watch on the agent's pods, within a time limit."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import click

from pykubelet.base.errors import Permanent
from pykubelet.cli.client.local_api import LocalApi
from pykubelet.cli.plan.pod_goals import Goal, Progress, Verdict
from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import Pod

TIMED_OUT = 124
"""The exit status after a timeout, as of timeout(1)."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """One pod that a command waits for."""

    label: str
    """Its name for messages, such as ``pod/demo``."""
    choose: Callable[[Sequence[Pod]], Pod | None]
    """Picks the pod among all pods of the agent."""
    goal: Goal
    done: str = ""
    """What is printed when the goal is reached; empty: nothing."""


def by_uid(uid: str) -> Callable[[Sequence[Pod]], Pod | None]:
    """Return a choice of the pod with this uid."""
    return lambda pods: next((pod for pod in pods if pod.metadata.uid == uid), None)


def wait_for_pods(api: LocalApi, awaited: Sequence[Awaited], seconds: float | None) -> None:
    """Return when every pod has reached its goal; ``seconds`` is the limit for all of them, None: no limit.

    Exits with 124 after the limit. Permanent: a pod has ended otherwise. Transient: the agent has stopped.
    """
    waiting = {each.label: each for each in awaited}
    verdicts: dict[str, Verdict] = {}
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
                pods[item["metadata"]["uid"]] = from_builtins(item, Pod)
            if listed:
                _judge(waiting, verdicts, tuple(pods.values()))
            if listed and not waiting:
                return
    except TimeoutError:
        _time_out(waiting, verdicts)
    raise Permanent(f"the agent at {api.path} has stopped; nothing is known of {', '.join(waiting)}")


def _judge(waiting: dict[str, Awaited], verdicts: dict[str, Verdict], pods: Sequence[Pod]) -> None:
    """Take those that have reached their goal out of ``waiting``."""
    for label, each in list(waiting.items()):
        verdicts[label] = verdict = each.goal(each.choose(pods))
        match verdict.progress:
            case Progress.REACHED:
                del waiting[label]
                if each.done:
                    click.echo(each.done)
            case Progress.MISSED:
                raise Permanent(f"{label} has ended: {verdict.why}")
            case Progress.PENDING:
                pass


def _time_out(waiting: Mapping[str, Awaited], verdicts: Mapping[str, Verdict]) -> NoReturn:
    for label in waiting:
        why = verdicts[label].why if label in verdicts else "the agent has not listed its pods"
        click.echo(f"error: timed out waiting for {label}: {why}", err=True)
    raise click.exceptions.Exit(TIMED_OUT)
