"""``pykubelet top``: show current CPU and memory usage of the node and its pods, as ``kubectl top`` does; or live."""

import json
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import click

from pykubelet.base.errors import NotFound, Transient
from pykubelet.cli.arguments.lookup import api_of, find_pod
from pykubelet.cli.arguments.pod_completion import namespaces, pod_names
from pykubelet.cli.live.live_options import LiveOptions
from pykubelet.cli.plan.columns import Columns
from pykubelet.cli.terminal import echo

_MIB = 1 << 20
_KINDS = {"po": "pods", "pod": "pods", "pods": "pods", "no": "nodes", "node": "nodes", "nodes": "nodes"}


@click.command(name="top")
@click.argument("kind", type=click.Choice(list(_KINDS)), required=False, metavar="pods|node")
@click.argument("name", required=False, shell_complete=pod_names)
@click.option("-n", "--namespace", default="", shell_complete=namespaces, help="Only this namespace (default: all).")
@click.option("--containers", is_flag=True, help="Print a line for each container.")
@click.option("-A", "--all-namespaces", is_flag=True, help="All namespaces (default).")
@click.option("--no-headers", is_flag=True, help="Print no headings.")
@click.option("-o", "--output", type=click.Choice(["json"]), default=None, help="Output format.")
@click.option("--sort-by", type=click.Choice(["cpu", "memory"]), help="Sort by usage, highest first.")
@click.option("-w", "--watch", is_flag=True, help="Show the pods live, with logs and restarts; also without KIND.")
@click.option(
    "--interval",
    type=click.FloatRange(1.0),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two measurements of -w.",
)
@click.pass_obj
def command(
    socket: object,
    kind: str | None,
    name: str | None,
    namespace: str,
    containers: bool,
    all_namespaces: bool,
    no_headers: bool,
    output: str | None,
    sort_by: str | None,
    watch: bool,
    interval: float,
) -> None:
    """Show current CPU and memory usage of the node or its pods; with a NAME only that pod.

    With -w, a table on the terminal follows the pods: state, restarts, recent usage and last event. Its keys are in
    its last line: up and down (or k and j) select a pod, l shows its log (q goes back, c is the next container), r
    restarts it after a question, s sorts, q ends. Without a terminal, a line is printed for each pod that has changed.

    Example: pykubelet top -w        pykubelet top pods --sort-by memory
    """
    if watch:
        _check_watch({"node": _KINDS.get(kind or "") == "nodes", "--containers": containers, "-o": output})
        space = "" if all_namespaces else namespace
        api = api_of(socket)
        with suppress(Transient):  # it may start later; a user who may not ask it has to know at once
            api.get("/pykubelet/v1/version")
        _watch(LiveOptions(api.path, space, name or "", interval, sort_by or "name"), headed=not no_headers)
        return
    if kind is None:
        raise click.UsageError("name what to show: pods or node; or follow the pods with -w")
    api = api_of(socket)
    summary = api.get("/pykubelet/v1/usage")
    if _KINDS[kind] == "nodes":
        if output:
            echo(json.dumps(_list("Node", [_node_metrics(summary["node"])]), indent=2))
        else:
            _node(summary["node"], headed=not no_headers)
        return
    space = "" if all_namespaces else namespace
    pods = [p for p in summary["pods"] if (not space or p["podRef"]["namespace"] == space)]
    if name:
        found = find_pod(api, name, space)
        pods = [p for p in pods if p["podRef"]["name"] == found.name and p["podRef"]["namespace"] == found.namespace]
        if not pods:
            raise NotFound(f"pod {found.name} has no measurements: none of its containers runs")
    if sort_by:
        measure = _cpu if sort_by == "cpu" else _memory
        pods.sort(key=measure, reverse=True)
    if output:
        echo(json.dumps(_list("Pod", [_pod_metrics(pod) for pod in pods]), indent=2))
        return
    if not pods:
        echo("no running pods found", err=True)
        return
    _pods(pods, containers, headed=not no_headers)


def _check_watch(given: Mapping[str, object]) -> None:
    """UsageError: something is given that -w does not show."""
    wrong = [name for name, value in given.items() if value]
    if wrong:
        raise click.UsageError(f"-w shows pods in a table of its own, and cannot be used with {', '.join(wrong)}")


def _watch(options: LiveOptions, *, headed: bool) -> None:
    """Show the live view, or print lines if there is no terminal; a signal that ends the view ends this process."""
    from pykubelet.cli.live.live_terminal import is_interactive

    if not is_interactive():
        from pykubelet.cli.live.plain_lines import print_changes

        print_changes(options, headed=headed)
        return
    from pykubelet.cli.live.live_view import run_live

    number = run_live(options)
    if number is signal.SIGINT:
        raise KeyboardInterrupt
    if number is not None:
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)


def _pods(pods: list[Any], containers: bool, *, headed: bool) -> None:
    columns = Columns("NAMESPACE", "POD", *(["NAME"] if containers else []), "CPU(cores)", "MEMORY(bytes)")
    rows: list[tuple[str, ...]] = []
    for pod in pods:
        names = (pod["podRef"]["namespace"], pod["podRef"]["name"])
        if containers:
            rows += [(*names, each["name"], *_cells(each)) for each in pod["containers"]]
        else:
            rows.append((*names, *_cells(pod)))
    echo(columns.render(rows) if headed else columns.aligned(rows))


def _list(kind: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    version = "metrics.k8s.io/v1beta1"
    shown = [{"kind": f"{kind}Metrics", "apiVersion": version, **item} for item in items]
    return {"kind": f"{kind}MetricsList", "apiVersion": version, "metadata": {}, "items": shown}


def _pod_metrics(pod: Any) -> dict[str, Any]:
    """Return the usage of a pod as the API group ``metrics.k8s.io`` has it."""
    containers = [{"name": each["name"], "usage": _usage(each)} for each in pod["containers"]]
    return {"metadata": pod["podRef"], "containers": containers}


def _node_metrics(node: Any) -> dict[str, Any]:
    return {"metadata": {"name": node["nodeName"]}, "usage": _usage(node)}


def _usage(usage: Any) -> dict[str, str]:
    cpu = {"cpu": f"{_cpu(usage)}n"} if "usageNanoCores" in usage.get("cpu", {}) else {}
    return {**cpu, "memory": f"{_memory(usage) // 1024}Ki"}


def _node(node: Any, *, headed: bool) -> None:
    capacity = _memory(node) + int(node.get("memory", {}).get("availableBytes", 0))
    share = f"{100 * _memory(node) // capacity}%" if capacity else "<unknown>"
    columns = Columns("NAME", "CPU(cores)", "MEMORY(bytes)", "MEMORY(%)")
    rows: list[tuple[str, ...]] = [(node["nodeName"], *_cells(node), share)]
    rows += [(f"  {each['name']}", *_cells(each), "") for each in node.get("systemContainers", ())]
    echo(columns.render(rows) if headed else columns.aligned(rows))


def _cells(usage: Any) -> tuple[str, str]:
    cpu = f"{-(-_cpu(usage) // 1_000_000)}m" if "usageNanoCores" in usage.get("cpu", {}) else "<unknown>"
    return cpu, f"{_memory(usage) // _MIB}Mi"


def _cpu(usage: Any) -> int:
    """Return the CPU usage in nanocores."""
    return int(usage.get("cpu", {}).get("usageNanoCores", 0))


def _memory(usage: Any) -> int:
    """Return the working set in bytes. For a pod without its own cgroup: the sum of its containers."""
    if "memory" not in usage and "containers" in usage:
        return sum(_memory(container) for container in usage["containers"])
    return int(usage.get("memory", {}).get("workingSetBytes", 0))
