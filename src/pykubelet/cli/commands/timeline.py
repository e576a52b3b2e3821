"""``pykubelet timeline``: draw a pod's start as a bar chart in the terminal."""

import json
from typing import Any

import click

from pykubelet.cli.arguments.lookup import api_of, find_pod
from pykubelet.cli.arguments.pod_args import one_pod
from pykubelet.cli.arguments.pod_completion import namespaces, pod_names

_WIDTH = 48
_EIGHTHS = " ▏▎▍▌▋▊▉█"


@click.command(name="timeline")
@click.argument("words", nargs=-1, required=True, metavar="[pod] NAME", shell_complete=pod_names)
@click.option("-n", "--namespace", default="", shell_complete=namespaces, help="The pod's namespace.")
@click.option("-o", "--output", type=click.Choice(["json"]), default=None, help="Output format.")
@click.pass_obj
def command(socket: object, words: tuple[str, ...], namespace: str, output: str | None) -> None:
    """Show how long each step of a POD's start took."""
    api = api_of(socket)
    found = find_pod(api, one_pod(words), namespace)
    view = api.get(f"/pykubelet/v1/timeline/{found.metadata.namespace}/{found.metadata.name}")
    if output == "json":
        click.echo(json.dumps(view, indent=2))
        return
    runs = [*reversed(view.get("earlier", [])), view]
    click.echo("\n\n".join(chart(found.metadata.name, run) for run in runs))


def chart(name: str, view: Any) -> str:
    """Return the bar chart of one timeline: a line per step, with a bar on a common scale and the duration."""
    steps = view["steps"]
    if not steps:
        return f"{name}: no start recorded since the agent started"
    total = max((s["start_s"] + (s["duration_s"] or 0.0) for s in steps), default=0.0) or 1e-9
    labels = [f"{s['step']} {s['container']}".rstrip() for s in steps]
    width = max(len(label) for label in labels)
    what = "restart of containers" if view.get("kind") == "restart" else "start"
    lines = [f"{name}: {what}, {_duration(total)} from the first to the last step"]
    for label, step in zip(labels, steps, strict=True):
        bar = _bar(step["start_s"] / total, (step["duration_s"] or 0.0) / total)
        time = _duration(step["duration_s"]) if step["duration_s"] else f"at {_duration(step['start_s'])}"
        lines.append(f"  {label:<{width}}  {bar}  {time}{'  ' + step['error'] if step.get('error') else ''}".rstrip())
    return "\n".join(lines)


def _bar(start: float, length: float) -> str:
    """Return a bar made of eighths of a character; a point in time is a thin stroke."""
    begin = min(int(start * _WIDTH), _WIDTH - 1)
    eighths = max(1, round(length * _WIDTH * 8))
    full, rest = divmod(min(eighths, (_WIDTH - begin) * 8), 8)
    bar = " " * begin + "█" * full + (_EIGHTHS[rest] if rest else "")
    return f"│{bar:<{_WIDTH}}│"


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"
