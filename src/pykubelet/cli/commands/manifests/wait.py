"""``pykubelet wait``: wait until pods have reached a state."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import click

from pykubelet.base.errors import NotFound
from pykubelet.cli.arguments.lookup import FoundPod, api_of
from pykubelet.cli.arguments.pod_args import Limit, chosen_pods, pod_names_of, selection_options
from pykubelet.cli.arguments.pod_completion import pod_names
from pykubelet.cli.changes.pod_wait import AwaitedPod, by_uid, wait_for_pods
from pykubelet.cli.plan.pod_goals import Pod, created, deleted, parse_goal
from pykubelet.cli.terminal import echo

_MET: Final = "condition met"
_GOALS: Final = ("ready", "completed", "deleted", "create", "condition=Ready")
"""Values of --for that a shell completes."""


@dataclass(frozen=True, slots=True)
class _PodChoice:
    """Picks a pod by name, so that a pod that starts later, or a changed version, is found, too."""

    name: str
    namespace: str

    def __call__(self, pods: Sequence[Pod]) -> Pod | None:
        found = [
            pod
            for pod in pods
            if pod["metadata"]["name"] in (self.name, f"{self.name}-{pod['spec'].get('nodeName', '')}")
            and self.namespace in ("", pod["metadata"]["namespace"])
        ]
        # While a changed pod replaces the old one, both exist.
        found.sort(key=lambda pod: ("deletionTimestamp" not in pod["metadata"], _version(pod)))
        return found[-1] if found else None


def _version(pod: Pod) -> str:
    return str(pod["metadata"].get("resourceVersion", ""))


def _goals(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    return [goal for goal in _GOALS if goal.startswith(incomplete)]


@click.command(name="wait")
@click.argument("words", nargs=-1, metavar="POD...", shell_complete=pod_names)
@click.option(
    "--for",
    "goal",
    required=True,
    shell_complete=_goals,
    help="ready, completed, deleted, condition=NAME, or jsonpath=…",
)
@selection_options
@click.option("--timeout", type=Limit(), default="30s", show_default=True, help="Limit for all pods; 0: none.")
@click.pass_obj
def command(
    socket: object,
    words: tuple[str, ...],
    goal: str,
    namespace: str,
    selector: str,
    everything: bool,
    timeout: float | None,
) -> None:
    """Wait until PODs are ready, have completed or are deleted; exits with 124 after the time limit.

    Exits with 1 as soon as a pod has ended otherwise: a failed pod never becomes ready.

    Example: pykubelet wait --for=ready web --timeout 2m
    """
    api = api_of(socket)
    judge = parse_goal(goal)
    awaited = []
    if words and judge is created:
        awaited = [
            AwaitedPod(f"pod/{name}", _PodChoice(name, namespace), judge, _MET, namespace)
            for name in dict.fromkeys(pod_names_of(words))
        ]
    else:
        pods = _chosen(socket, words, namespace, selector, everything, absent_ok=judge is deleted)
        for pod in {pod.item["metadata"]["uid"]: pod for pod in pods}.values():
            chosen: Callable[[Sequence[Pod]], Pod | None]
            chosen = by_uid(pod.item["metadata"]["uid"]) if judge is deleted else _PodChoice(pod.name, pod.namespace)
            awaited.append(AwaitedPod(f"pod/{pod.name}", chosen, judge, _MET, pod.namespace))
    if not awaited and judge is not deleted:
        raise NotFound("no pods match the selection")
    if awaited:
        wait_for_pods(api, awaited, timeout)


def _chosen(
    socket: object, words: tuple[str, ...], namespace: str, selector: str, everything: bool, *, absent_ok: bool
) -> list[FoundPod]:
    api = api_of(socket)
    if not words or not absent_ok:
        return chosen_pods(api, words, namespace, selector=selector, everything=everything)
    found = []
    for word in words:
        try:
            found += chosen_pods(api, (word,), namespace)
        except NotFound:
            echo(f"{word} does not exist", err=True)
    return found
