"""``pykubelet port-forward``: forward local ports to a pod."""

from collections.abc import Mapping

import click

from pykubelet.base.errors import Invalid
from pykubelet.base.http.port_number import parse_port
from pykubelet.base.suggestion import did_you_mean
from pykubelet.cli.arguments.lookup import FoundPod, api_of, find_pod
from pykubelet.cli.arguments.pod_completion import namespaces, pod_names, port_names
from pykubelet.cli.terminal import echo


def parse_ports(text: str, names: Mapping[str, int]) -> tuple[int, int]:
    """Parse ``LOCAL:REMOTE``, ``PORT`` or ``:REMOTE`` into (local, remote); local 0: any free port. Raises Invalid.

    REMOTE may be one of the ``names`` of the pod's ports.
    """
    local, colon, remote = text.partition(":")
    if not colon:
        remote = local
    if remote and not remote[0].isdecimal() and remote[0].isalnum():
        number = _numbered(remote, names)
        local, remote = local if colon else number, number
    numbers = (parse_port(local) if local.strip("0") else 0, parse_port(remote))
    if numbers[0] is None or numbers[1] is None:
        raise Invalid(f"invalid ports {text!r}; use LOCAL:REMOTE, for example 8080:80, or :80 for any free local port")
    return numbers[0], numbers[1]


def _numbered(name: str, names: Mapping[str, int]) -> str:
    if name in names:
        return str(names[name])
    known = ", ".join(f"{each} ({number})" for each, number in names.items()) or "none"
    raise Invalid(f"the pod has no port named {name!r}{did_you_mean(name, names)}; its named ports: {known}")


def named_ports(pod: FoundPod) -> dict[str, int]:
    """Return the numbers of the pod's named ports; of equal names, the first container's."""
    ports = [port for container in pod.containers for port in container.get("ports") or () if port.get("name")]
    return {str(port["name"]): int(port["containerPort"]) for port in reversed(ports)}


@click.command(name="port-forward")
@click.argument("pod", shell_complete=pod_names)
@click.argument("ports", nargs=-1, required=True, metavar="[LOCAL:]REMOTE...", shell_complete=port_names)
@click.option("-n", "--namespace", default="", shell_complete=namespaces, help="The pod's namespace.")
@click.option("--address", default="localhost", show_default=True, help="Address to listen on.")
@click.pass_obj
def command(socket: object, pod: str, ports: tuple[str, ...], namespace: str, address: str) -> None:
    """Listen on LOCAL ports and connect them to REMOTE ports of POD, numbers or names, until Ctrl-C."""
    api = api_of(socket)
    found = find_pod(api, pod, namespace)
    names = named_ports(found)
    pairs = [parse_ports(text, names) for text in ports]
    path = f"/api/v1/namespaces/{found.namespace}/pods/{found.name}/portforward"
    import asyncio

    from pykubelet.cli.client.forwarding import Forwarding, forward

    asyncio.run(forward(Forwarding(api.path, path, address, pairs), echo))
