"""``pykubelet top``: show current CPU and memory usage of the node and its pods, as ``kubectl top`` does."""

from typing import Any

import click

from pykubelet.cli.columns import Columns
from pykubelet.cli.lookup import api_of
from pykubelet.cli.pod_completion import namespaces

_MIB = 1 << 20
_KINDS = {"po": "pods", "pod": "pods", "pods": "pods", "no": "nodes", "node": "nodes", "nodes": "nodes"}


@click.command(name="top")
@click.argument("kind", type=click.Choice(list(_KINDS)), metavar="pods|node")
@click.argument("name", required=False)
@click.option("-n", "--namespace", default="", shell_complete=namespaces, help="Only this namespace (default: all).")
@click.option("--containers", is_flag=True, help="Print a line for each container.")
@click.option("--sort-by", type=click.Choice(["cpu", "memory"]), help="Sort by usage, highest first.")
@click.pass_obj
def command(socket: object, kind: str, name: str | None, namespace: str, containers: bool, sort_by: str | None) -> None:
    """Show current CPU and memory usage of the node or its pods; with a NAME only that pod."""
    summary = api_of(socket).get("/pykubelet/v1/usage")
    if _KINDS[kind] == "nodes":
        _node(summary["node"])
        return
    pods = [p for p in summary["pods"] if (not namespace or p["podRef"]["namespace"] == namespace)]
    if name:
        pods = [p for p in pods if p["podRef"]["name"] == name or p["podRef"]["name"].startswith(f"{name}-")]
    if sort_by:
        measure = _cpu if sort_by == "cpu" else _memory
        pods.sort(key=measure, reverse=True)
    if not pods:
        click.echo("no running pods found", err=True)
        return
    _pods(pods, containers)


def _pods(pods: list[Any], containers: bool) -> None:
    columns = Columns("NAMESPACE", "POD", *(["NAME"] if containers else []), "CPU(cores)", "MEMORY(bytes)")
    rows: list[tuple[str, ...]] = []
    for pod in pods:
        names = (pod["podRef"]["namespace"], pod["podRef"]["name"])
        if containers:
            rows += [(*names, each["name"], *_cells(each)) for each in pod["containers"]]
        else:
            rows.append((*names, *_cells(pod)))
    click.echo(columns.render(rows))


def _node(node: Any) -> None:
    capacity = _memory(node) + int(node.get("memory", {}).get("availableBytes", 0))
    share = f"{100 * _memory(node) // capacity}%" if capacity else "<unknown>"
    columns = Columns("NAME", "CPU(cores)", "MEMORY(bytes)", "MEMORY(%)")
    rows = [(node["nodeName"], *_cells(node), share)]
    rows += [(f"  {each['name']}", *_cells(each), "") for each in node.get("systemContainers", ())]
    click.echo(columns.render(rows))


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
