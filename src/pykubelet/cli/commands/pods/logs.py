"""``pykubelet logs``: print or follow the logs of containers."""

import re
import sys
from datetime import datetime

import click

from pykubelet.base.errors import Invalid, NotFound
from pykubelet.cli.arguments.log_sources import concurrent, log_sources, sequential
from pykubelet.cli.arguments.lookup import api_of, find_pod
from pykubelet.cli.arguments.pod_args import chosen_pods
from pykubelet.cli.arguments.pod_completion import container_names, namespaces, pod_names
from pykubelet.cli.terminal import echo

_SPAN = re.compile(r"(\d+)(s|m|h|d)")
_SELECTED_LINES = 10
"""Lines of each container with ``-l``, as of kubectl."""
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def span_seconds(text: str) -> int:
    """Parse a span such as ``90s``, ``1h30m`` or ``2d`` into seconds. Invalid: anything else."""
    parts = _SPAN.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise Invalid(f"--since: {text!r} is not a time span; use for example 30s, 10m or 1h30m")
    return sum(int(number) * _UNITS[unit] for number, unit in parts)


def since_time(text: str) -> str:
    """Return a time of RFC 3339 as it is. Invalid: the text is no time, or names no zone."""
    try:
        if datetime.fromisoformat(text).tzinfo is not None:
            return text
    except ValueError:
        pass
    raise Invalid(f"--since-time: {text!r} is not a time with its zone; use for example 2026-01-31T12:00:00Z")


@click.command(name="logs")
@click.argument("pod", required=False, shell_complete=pod_names)
@click.argument("container", required=False, shell_complete=container_names)
@click.option(
    "-c",
    "--container",
    "option",
    default=None,
    shell_complete=container_names,
    help="The container (default: the first).",
)
@click.option("--all-containers", is_flag=True, help="The logs of all containers of the pod.")
@click.option("-l", "--selector", default="", help="The logs of all pods with these labels, for example app=web.")
@click.option("-n", "--namespace", default="", shell_complete=namespaces, help="The pod's namespace.")
@click.option("-f", "--follow", is_flag=True, help="Follow the log, across restarts of the container.")
@click.option("-p", "--previous", is_flag=True, help="Print the log of the previous run of the container.")
@click.option("--prefix", is_flag=True, help="Begin each line with the names of its pod and container.")
@click.option("--tail", type=click.IntRange(-1), default=None, help="Print only this number of last lines; -1: all.")
@click.option("--since", default="", help="Print only lines newer than this time span, for example 10m.")
@click.option(
    "--since-time", "moment", default="", help="Print only lines after this time, for example 2026-01-31T12:00:00Z."
)
@click.option("--timestamps", is_flag=True, help="Print the time of each line.")
@click.pass_obj
def command(
    socket: object,
    pod: str | None,
    container: str | None,
    option: str | None,
    all_containers: bool,
    selector: str,
    namespace: str,
    follow: bool,
    previous: bool,
    prefix: bool,
    tail: int | None,
    since: str,
    moment: str,
    timestamps: bool,
) -> None:
    """Print the log of a POD's CONTAINER, or of several.

    With -l, the last 10 lines of each container are printed, unless --tail says otherwise.

    Example: pykubelet logs -f -l app=web --all-containers --prefix
    """
    if bool(pod) == bool(selector):
        raise click.UsageError("name a pod, or select pods with -l")
    if since and moment:
        raise click.UsageError("give --since or --since-time, not both")
    if all_containers and (option or container):
        raise click.UsageError("name a container, or give --all-containers, not both")
    since_seconds = span_seconds(since) if since else None
    since_moment = since_time(moment) if moment else None
    api = api_of(socket)
    pods = [find_pod(api, pod, namespace)] if pod else chosen_pods(api, (), namespace, selector=selector)
    sources = log_sources(pods, option or container, everything=all_containers)
    if not sources:
        raise NotFound(f"no pods have the labels {selector}")
    if tail is None and selector:
        tail = _SELECTED_LINES
    query: dict[str, object] = {
        "follow": "true" if follow else None,
        "previous": "true" if previous else None,
        "tailLines": None if tail == -1 else tail,
        "sinceSeconds": since_seconds,
        "sinceTime": since_moment,
        "timestamps": "true" if timestamps else None,
    }
    read = concurrent if follow and len(sources) > 1 else sequential
    errors = []
    for source, line in read(sources, api, query):
        if not isinstance(line, bytes):
            errors.append(line)
            continue
        sys.stdout.buffer.write(source.prefix + line if prefix else line)
        sys.stdout.buffer.flush()
    for error in errors[1:]:
        echo(f"error: {error}", err=True)
    if errors:
        raise errors[0]
