"""``pykubelet restart``: restart a container, or a whole pod."""

import click

from pykubelet.base.errors import Invalid
from pykubelet.cli.arguments.lookup import FoundPod, api_of, find_container
from pykubelet.cli.arguments.pod_args import Limit, chosen_pods, selection_options
from pykubelet.cli.arguments.pod_completion import pods_and_containers
from pykubelet.cli.changes.pod_wait import AwaitedPod, by_uid, wait_for_pods
from pykubelet.cli.client.local_api import LocalApi
from pykubelet.cli.plan.pod_goals import restarted
from pykubelet.cli.terminal import echo


@click.command(name="restart")
@click.argument("words", nargs=-1, metavar="POD[/CONTAINER]...", shell_complete=pods_and_containers)
@selection_options
@click.option("-c", "--container", default="", help="Only this container (also POD/CONTAINER).")
@click.option("--wait", is_flag=True, help="Wait until the pods are ready again.")
@click.option("--timeout", type=Limit(), default="5m", show_default=True, help="Limit of --wait; 0: none.")
@click.pass_obj
def command(
    socket: object,
    words: tuple[str, ...],
    namespace: str,
    selector: str,
    everything: bool,
    container: str,
    wait: bool,
    timeout: float | None,
) -> None:
    """Restart a CONTAINER of a POD, or all of the POD in a new sandbox, with its grace period and preStop hooks.

    The restart counts go up; the pod keeps its volumes. A whole pod gets a new address, and its init containers run
    again. The agent acknowledges a request when it is on disk, and restarts once, even if it is itself restarted.

    Example: pykubelet restart web/nginx        pykubelet restart web --wait
    """
    api = api_of(socket)
    awaited = []
    for pod, name in _targets(api, words, namespace, selector, everything, container):
        if name:
            find_container(pod, name)
        api.post(f"/pykubelet/v1/restart/{pod.namespace}/{pod.name}", container=name)
        label = f"pod/{pod.name} container {name}" if name else f"pod/{pod.name}"
        echo(f"{label} restarted")
        choose, goal = by_uid(pod.item["metadata"]["uid"]), restarted(pod.item, name)
        awaited.append(AwaitedPod(label, choose, goal, namespace=pod.namespace))
    if wait:
        wait_for_pods(api, awaited, timeout)


def _targets(
    api: LocalApi, words: tuple[str, ...], namespace: str, selector: str, everything: bool, container: str
) -> list[tuple[FoundPod, str]]:
    """Return pods and the container to restart of each; an empty name means the whole pod."""
    if not words:
        pods = chosen_pods(api, (), namespace, selector=selector, everything=everything)
        return [(pod, container) for pod in pods]
    if selector or everything:
        raise click.UsageError("name pods, or select them with -l or --all")
    targets = []
    for word in words:
        pod, slash, name = word.removeprefix("pod/").partition("/")
        if slash and container and name != container:
            raise Invalid(f"{word} and -c {container} name different containers")
        targets += [(found, name or container) for found in chosen_pods(api, (pod,), namespace)]
    return targets
