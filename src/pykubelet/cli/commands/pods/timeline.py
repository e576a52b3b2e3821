"""``pykubelet timeline``: draw the starts of pods as bar charts in the terminal, or as an SVG picture."""

import json
from pathlib import Path
from typing import Any

import click

from pykubelet.base.errors import NotFound, Permanent
from pykubelet.base.text import printable
from pykubelet.cli.arguments.lookup import api_of, find_pod
from pykubelet.cli.arguments.pod_args import pod_names_of
from pykubelet.cli.arguments.pod_completion import namespaces, pod_names
from pykubelet.cli.terminal import echo

_WIDTH = 48
_EIGHTHS = " ▏▎▍▌▋▊▉█"


@click.command(name="timeline")
@click.argument("words", nargs=-1, required=True, metavar="[pod] NAME...", shell_complete=pod_names)
@click.option("-n", "--namespace", default="", shell_complete=namespaces, help="The pods' namespace.")
@click.option("-o", "--output", type=click.Choice(["json"]), default=None, help="Output format.")
@click.option(
    "--svg",
    type=click.Path(path_type=Path, allow_dash=True, dir_okay=False),
    metavar="FILE",
    help="Write a picture to this file; - for standard output.",
)
@click.pass_obj
def command(socket: object, words: tuple[str, ...], namespace: str, output: str | None, svg: Path | None) -> None:
    """Show how long each step of a POD's start took, or those of several pods.

    Example: pykubelet timeline web        pykubelet timeline web db --svg starts.svg
    """
    if output and svg:
        raise click.UsageError("give -o or --svg, not both")
    api = api_of(socket)
    views = []
    for name in pod_names_of(words):
        found = find_pod(api, name, namespace)
        views.append((found.name, api.get(f"/pykubelet/v1/timeline/{found.namespace}/{found.name}")))
    if output == "json":
        shown = [view for _, view in views]
        echo(json.dumps(shown[0] if len(shown) == 1 else shown, indent=2))
        return
    runs = [(name, run) for name, view in views for run in (*reversed(view.get("earlier", [])), view)]
    if svg is not None:
        _write_svg(svg, [run for _, run in runs])
        return
    echo("\n\n".join(chart(name, run) for name, run in runs))


def _write_svg(path: Path, runs: list[Any]) -> None:
    """Write the picture. NotFound: nothing was recorded. Permanent: the file cannot be written."""
    from pykubelet.cli.plan.timeline_svg import timeline_svg

    if not any(run["steps"] for run in runs):
        raise NotFound("no start was recorded since the agent started; restart the pod with `pykubelet restart POD`")
    text = timeline_svg(runs)
    if str(path) == "-":
        echo(text, nl=False)
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Permanent(f"cannot write {path}: {error.strerror}") from error
    echo(f"wrote {path}", err=True)


def chart(name: str, view: Any) -> str:
    """Return the bar chart of one timeline: a line per step, with a bar on a common scale and the duration."""
    steps = view["steps"]
    if not steps:
        return f"{name}: no start recorded since the agent started"
    total = max((s["start_s"] + (s["duration_s"] or 0.0) for s in steps), default=0.0) or 1e-9
    labels = [printable(f"{s['step']} {s['container']}".rstrip()) for s in steps]
    width = max(len(label) for label in labels)
    what = "restart of containers" if view.get("kind") == "restart" else "start"
    lines = [f"{name}: {what}, {_duration(total)} from the first to the last step"]
    for label, step in zip(labels, steps, strict=True):
        bar = _bar(step["start_s"] / total, (step["duration_s"] or 0.0) / total)
        time = _duration(step["duration_s"]) if step["duration_s"] else f"at {_duration(step['start_s'])}"
        lines.append(
            f"  {label:<{width}}  {bar}  {time}{'  ' + printable(step['error']) if step.get('error') else ''}".rstrip()
        )
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
