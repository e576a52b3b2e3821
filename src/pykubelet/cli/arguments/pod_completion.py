"""Shell completion of kinds, pods, containers, namespaces and ports.

An agent that does not respond gives no words, since completion cannot show errors.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pykubelet.base.text import printable

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from pykubelet.cli.arguments.lookup import FoundPod


def pod_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Return the agent's pods, of the namespace that is given, if any."""
    pods = _pods(ctx, ctx.params.get("namespace") or "")
    prefix, slash, rest = incomplete.rpartition("/")
    found = _starting(rest, ((pod.name, pod.namespace) for pod in pods))
    for item in found:
        item.value = f"{prefix}{slash}{item.value}"
    return found


def pods_and_containers(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Return pods, or behind ``POD/`` the containers of that pod."""
    name, slash, rest = incomplete.partition("/")
    if not slash or name in ("pod", "pods", "po"):
        return pod_names(ctx, parameter, incomplete)
    pod = _pod_named(ctx, name)
    containers = pod.containers if pod is not None else ()
    found = _starting(rest, ((str(each["name"]), str(each.get("image", ""))) for each in containers))
    for item in found:
        item.value = f"{name}/{item.value}"
    return found


def pods_and_files(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Return pods with the colon that ``cp`` needs; files, if no pod begins like this."""
    from click.shell_completion import CompletionItem

    found = pod_names(ctx, parameter, incomplete)
    for item in found:
        item.value = f"{item.value}:"
    return found or [CompletionItem(incomplete, type="file")]


def container_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Return the containers of the pod that is named before."""
    pod = _named_pod(ctx)
    containers = pod.containers if pod is not None else ()
    return _starting(incomplete, ((str(each["name"]), str(each.get("image", ""))) for each in containers))


def namespaces(ctx: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Return the namespaces of the agent's pods."""
    return _starting(incomplete, ((pod.namespace, "") for pod in _pods(ctx)))


def port_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Return the names and numbers of the pod's ports, behind the local port if one is given."""
    pod = _named_pod(ctx)
    ports = [port for each in pod.containers for port in each.get("ports") or ()] if pod is not None else []
    local, colon, remote = incomplete.rpartition(":")
    numbers = [(str(port.get("name", "")), str(port["containerPort"])) for port in ports]
    words = [(name, number) for name, number in numbers if name] + [(number, name) for name, number in numbers]
    found = _starting(remote, words)
    for item in found:
        item.value = f"{local}{colon}{item.value}"
    return found


def kinds_and_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Return the kinds of ``get``, or after ``pods`` the pods."""
    from pykubelet.cli.arguments.kinds import BY_NAME, KINDS

    words: Sequence[str] = ctx.params.get("words") or ()
    first = BY_NAME.get(words[0] if words else incomplete.partition("/")[0])
    if (words or "/" in incomplete) and first is not None:
        return pod_names(ctx, parameter, incomplete) if first.plural in ("pods", "events") else []
    return _starting(incomplete, ((kind.plural, kind.short) for kind in KINDS))


def _starting(incomplete: str, words: Iterable[tuple[str, str]]) -> "list[CompletionItem]":
    """Return those of the words (word, help) that begin like this, each once.

    The shells read one line for each: words that would be several are left out, helps of this kind are escaped.
    """
    from click.shell_completion import CompletionItem  # only a shell that completes a word needs it

    found = ((word, printable(about)) for word, about in dict(words).items() if printable(word) == word)
    return [CompletionItem(word, help=about) for word, about in found if word.startswith(incomplete)]


def _named_pod(ctx: click.Context) -> "FoundPod | None":
    """Return the pod that the command line names already."""
    # While the value of an option is completed, click has not yet assigned the arguments.
    named = ctx.params.get("pod") or ctx.params.get("words") or ctx.args
    return _pod_named(ctx, named if isinstance(named, str) else next(iter(named or ()), ""))


def _pod_named(ctx: click.Context, name: str) -> "FoundPod | None":
    from pykubelet.base.errors import PykubeletError
    from pykubelet.cli.arguments.lookup import find_pod
    from pykubelet.cli.client.local_api import LocalApi

    socket = ctx.find_root().params.get("socket")
    if not name or not isinstance(socket, Path):
        return None
    try:
        return find_pod(LocalApi(socket), name, ctx.params.get("namespace") or "")
    except PykubeletError:
        return None


def _pods(ctx: click.Context, namespace: str = "") -> "list[FoundPod]":
    from pykubelet.base.errors import PykubeletError
    from pykubelet.cli.arguments.lookup import list_pods
    from pykubelet.cli.client.local_api import LocalApi

    socket = ctx.find_root().params.get("socket")
    if not isinstance(socket, Path):
        return []
    try:
        return list_pods(LocalApi(socket), namespace)
    except PykubeletError:
        return []
