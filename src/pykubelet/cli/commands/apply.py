"""``pykubelet apply``: put objects into the manifest directory of the running agent."""

from collections.abc import Sequence
from pathlib import Path

import click

from pykubelet.cli.arguments.lookup import api_of
from pykubelet.cli.arguments.pod_args import Limit, files_option
from pykubelet.cli.changes.check_sources import node_of
from pykubelet.cli.changes.manifest_directory import ManifestDirectory
from pykubelet.cli.changes.manifest_input import Given, read_objects
from pykubelet.cli.changes.pod_wait import Awaited, by_uid, wait_for_pods
from pykubelet.cli.client.local_api import LocalApi
from pykubelet.cli.plan.pod_goals import created, settled
from pykubelet.kubelet.desired.manifest import adopt
from pykubelet.kubelet.types.updates import Source
from pykubelet.models.core_v1 import Pod

_NOTICED_SECONDS = 30.0
"""Limit for the agent to read a changed file; it is notified of changes, and reads all files every 20 s."""


@click.command(name="apply")
@files_option
@click.option("--wait", is_flag=True, help="Wait until the pods are ready, or have succeeded.")
@click.option("--timeout", type=Limit(), default="5m", show_default=True, help="Limit of --wait; 0: none.")
@click.pass_obj
def command(socket: object, files: tuple[Path, ...], wait: bool, timeout: float | None) -> None:
    """Create the objects of FILE, or change those that exist, in the agent's manifest directory.

    All files are checked first, as `pykubelet check` does; if anything is wrong, nothing is changed. A pod whose
    manifest changes is stopped and started again. An object is replaced in the file that defines it; a new one gets a
    file of its own.

    Example: pykubelet apply -f web.yaml --wait --timeout 2m
    """
    if not files:
        raise click.UsageError("no file given; for example: pykubelet apply -f web.yaml")
    api = api_of(socket)
    given = read_objects(files, node_of(api), complete=False)
    directory = ManifestDirectory.of_agent(api)
    origins = {}
    with directory.locked():
        for each in given:
            applied = directory.apply(each.item, each.text)
            origins[each.item.key] = applied.origin
            click.echo(f"{each.label} {applied.change}")
    pods = [(each, pod_uid(each, origins[each.item.key], directory.node_name)) for each in given if _is_pod(each)]
    wait_for(api, pods, timeout if wait else _NOTICED_SECONDS, ready=wait)


def wait_for(api: LocalApi, pods: Sequence[tuple[Given, str]], seconds: float | None, *, ready: bool) -> None:
    """Wait until the agent has these pods (object, uid), with ``ready`` until they are ready or have succeeded."""
    goal = settled if ready else created
    awaited = [Awaited(each.label, by_uid(uid), goal) for each, uid in pods]
    if awaited:
        wait_for_pods(api, awaited, seconds)


def pod_uid(given: Given, origin: str, node_name: str) -> str:
    """Return the uid that the agent gives to this version of a pod of a file."""
    pod = given.item.value
    assert isinstance(pod, Pod)
    return adopt(pod, given.item.digest, Source.FILE, origin, node_name).metadata.uid


def _is_pod(given: Given) -> bool:
    return isinstance(given.item.value, Pod)
