"""``pykubelet logs``: print or follow a container's log."""

import re
import sys

import click

from pykubelet.base.errors import Invalid
from pykubelet.cli.lookup import api_of, find_container, find_pod
from pykubelet.cli.pod_completion import pod_names

_SPAN = re.compile(r"(\d+)(s|m|h|d)")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def span_seconds(text: str) -> int:
    """Parse a span such as ``90s``, ``1h30m`` or ``2d`` into seconds. Invalid: anything else."""
    parts = _SPAN.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise Invalid(f"--since: {text!r} is not a time span; use for example 30s, 10m or 1h30m")
    return sum(int(number) * _UNITS[unit] for number, unit in parts)


@click.command(name="logs")
@click.argument("pod", shell_complete=pod_names)
@click.argument("container", required=False)
@click.option("-c", "--container", "option", default=None, help="The container (default: the first).")
@click.option("-n", "--namespace", default="", help="The pod's namespace.")
@click.option("-f", "--follow", is_flag=True, help="Follow the log, across restarts of the container.")
@click.option("-p", "--previous", is_flag=True, help="Print the log of the previous run of the container.")
@click.option("--tail", type=click.IntRange(0), default=None, help="Print only this number of last lines.")
@click.option("--since", default="", help="Print only lines newer than this time span, for example 10m.")
@click.option("--timestamps", is_flag=True, help="Print the time of each line.")
@click.pass_obj
def command(
    socket: object,
    pod: str,
    container: str | None,
    option: str | None,
    namespace: str,
    follow: bool,
    previous: bool,
    tail: int | None,
    since: str,
    timestamps: bool,
) -> None:
    """Print the log of a POD's CONTAINER."""
    api = api_of(socket)
    found = find_pod(api, pod, namespace)
    path = f"/api/v1/namespaces/{found.metadata.namespace}/pods/{found.metadata.name}/log"
    query: dict[str, object] = {
        "container": find_container(found, option or container),
        "follow": "true" if follow else None,
        "previous": "true" if previous else None,
        "tailLines": tail,
        "sinceSeconds": span_seconds(since) if since else None,
        "timestamps": "true" if timestamps else None,
    }
    for line in api.lines(path, **query):
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
