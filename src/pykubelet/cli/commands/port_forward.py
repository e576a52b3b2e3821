"""``pykubelet port-forward``: forward local ports to a pod."""

import click

from pykubelet.base.errors import Invalid
from pykubelet.cli.lookup import api_of, find_pod
from pykubelet.cli.pod_completion import pod_names


def parse_ports(text: str) -> tuple[int, int]:
    """Parse ``LOCAL:REMOTE``, ``PORT`` or ``:REMOTE`` into (local, remote); local 0: any free port. Raises Invalid."""
    local, colon, remote = text.partition(":")
    if not colon:
        remote = local
    words = (local or "0", remote)
    if not all(word.isascii() and word.isdecimal() and int(word[:6]) < 65536 for word in words) or int(remote) == 0:
        raise Invalid(f"invalid ports {text!r}; use LOCAL:REMOTE, for example 8080:80, or :80 for any free local port")
    return int(words[0]), int(words[1])


@click.command(name="port-forward")
@click.argument("pod", shell_complete=pod_names)
@click.argument("ports", nargs=-1, required=True, metavar="[LOCAL:]REMOTE...")
@click.option("-n", "--namespace", default="", help="The pod's namespace.")
@click.option("--address", default="localhost", show_default=True, help="Address to listen on.")
@click.pass_obj
def command(socket: object, pod: str, ports: tuple[str, ...], namespace: str, address: str) -> None:
    """Listen on LOCAL ports and connect them to REMOTE ports of POD, until Ctrl-C."""
    pairs = [parse_ports(text) for text in ports]
    api = api_of(socket)
    found = find_pod(api, pod, namespace)
    path = f"/api/v1/namespaces/{found.metadata.namespace}/pods/{found.metadata.name}/portforward"
    import asyncio

    from pykubelet.cli.forwarding import Forwarding, forward

    asyncio.run(forward(Forwarding(api.path, path, address, pairs), click.echo))
