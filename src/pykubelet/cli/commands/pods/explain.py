"""``pykubelet explain``: show why a pod is in its state, from the agent's own decisions."""

import json
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click

from pykubelet.base.errors import NotFound
from pykubelet.base.text import printable
from pykubelet.cli.arguments.lookup import FoundPod, api_of, find_pod
from pykubelet.cli.arguments.pod_args import one_pod
from pykubelet.cli.arguments.pod_completion import pod_names
from pykubelet.cli.client.local_api import LocalApi
from pykubelet.cli.plan.columns import Columns, age, hanging
from pykubelet.cli.plan.pod_row import pod_status_word
from pykubelet.cli.terminal import echo, terminal_width

_POLL_SECONDS = 0.5
_SHOWN = 20
_INDENT = 4
"""Of a line that goes on below itself."""


@click.command(name="explain")
@click.argument("words", nargs=-1, required=True, metavar="[pod] NAME", shell_complete=pod_names)
@click.option("-n", "--namespace", default="", help="The pod's namespace.")
@click.option("-w", "--watch", is_flag=True, help="Follow changes until interrupted.")
@click.option("-o", "--output", type=click.Choice(["json"]), default=None, help="Output format.")
@click.option("--all", "everything", is_flag=True, help=f"Show all decisions, not only the newest {_SHOWN}.")
@click.pass_obj
def command(
    socket: object, words: tuple[str, ...], namespace: str, watch: bool, output: str | None, everything: bool
) -> None:
    """Show why a pod is in its state: what it waits for, and the agent's decisions about it, the newest first."""
    name = one_pod(words)
    api, shown = api_of(socket), ""
    while True:
        pod, view = _ask(api, name, namespace)
        key = json.dumps(_without_countdowns(view))
        if key != shown:
            if watch and shown and not output:
                echo()
            echo(json.dumps(view, indent=None if watch else 2) if output else _text(pod, view, everything))
            shown = key
        if not watch:
            return
        time.sleep(_POLL_SECONDS)


def _ask(api: LocalApi, name: str, namespace: str) -> tuple[FoundPod, Any]:
    pod = find_pod(api, name, namespace)
    try:
        return pod, api.get(f"/pykubelet/v1/explain/{pod.namespace}/{pod.name}")
    except NotFound as error:
        raise NotFound(f"{error}; an agent of an older version does not explain pods") from error


def _without_countdowns(view: Any) -> Any:
    """Return the parts of a view whose change is worth showing: not those that only count time."""
    waits = [{**wait, "secondsLeft": None, "times": None, "lastAt": None} for wait in view.get("waits", ())]
    sync = {**view.get("lastSync", {}), "at": None, "nextIn": None}
    sync["decisions"] = [{**each, "at": None, "firstAt": None} for each in sync.get("decisions", ())]
    return {**view, "waits": waits, "lastSync": sync}


def _text(pod: FoundPod, view: Any, everything: bool) -> str:
    width = terminal_width()
    lines = [hanging(line, _INDENT, width) for line in (*_head(pod, view), *_waits(view))]
    return "\n".join([*lines, *_last_sync(view, width), *_decisions(view, everything, width)])


def _head(pod: FoundPod, view: Any) -> Iterator[str]:
    yield f"{view['namespace']}/{view['name']}: {pod_status_word(pod.item)}"
    if view.get("reason") or view.get("message"):
        cause = ": ".join(each for each in (view.get("reason"), view.get("message")) if each)
        yield f"  {_one_line(cause)}"
    admission = view.get("admission")
    if admission:
        yield f"  admission, {_ago(admission['at'])} ago: {admission['action']}: {_why(admission)}"


def _waits(view: Any) -> Iterator[str]:
    waits = view.get("waits", ())
    ended = view["phase"] in ("Succeeded", "Failed")
    yield "Waits for:" if waits else f"Waits for: nothing{', it has ended' if ended else ''}"
    for wait in waits:
        subject = wait.get("subject", "")
        cause = ": ".join(each for each in (wait.get("reason"), wait.get("message")) if each)
        left, since = wait.get("secondsLeft"), wait.get("since")
        when = f", {_seconds(left)} left" if left is not None else f", since {_ago(since)}" if since else ""
        if wait.get("lastAt"):
            times = f", {wait['times']} times in a row" if wait.get("times", 0) > 1 else ""
            when = f"{times}, last {_ago(wait['lastAt'])} ago"
        label = _LABELS.get(wait["kind"], wait["kind"])
        yield f"  {label}{f' of {subject}' if subject else ''}{when}: {_one_line(cause)}"


_LABELS = {"backOff": "back-off", "retry": "next attempt", "volumes": "volumes", "probe": "probe"}


def _last_sync(view: Any, width: int | None) -> Iterator[str]:
    sync = view.get("lastSync")
    if not sync:
        return
    following = f", the next in {_seconds(sync['nextIn'])}" if sync.get("nextIn") is not None else ""
    yield f"Last sync: {_ago(sync['at'])} ago{following}"
    rows = [(f"  {each.get('subject') or each['topic']}", each["action"], _why(each)) for each in sync["decisions"]]
    if rows:
        yield Columns("  ABOUT", "ACTION", "WHY").render(rows, width)


def _decisions(view: Any, everything: bool, width: int | None) -> Iterator[str]:
    decisions = view.get("decisions", ())
    if not decisions:
        yield "Decisions: none since the agent started"
        return
    yield "Decisions, the newest first:"
    shown = decisions if everything else decisions[:_SHOWN]
    rows = [
        (
            f"  {datetime.fromtimestamp(each['at']).astimezone():%H:%M:%S}",
            _ago(each["at"]) + _times(each),
            each.get("subject") or each["topic"],
            each["action"],
            _why(each),
        )
        for each in shown
    ]
    yield Columns("  TIME", "AGE", "ABOUT", "ACTION", "WHY").render(rows, width)
    if len(decisions) > len(shown):
        yield f"  … {len(decisions) - len(shown)} more: --all"


def _times(decision: Any) -> str:
    count = decision.get("count", 1)
    return f" (x{count} over {_ago(decision['firstAt'])})" if count > 1 else ""


def _why(decision: Any) -> str:
    return _one_line(": ".join(each for each in (decision["reason"], decision.get("message")) if each))


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()))


def _ago(at: float) -> str:
    return age(max(0.0, time.time() - at))


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 1 else f"{seconds:.1f} s"
