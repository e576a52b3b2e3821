"""Finds the pod and container that the user names."""

from pathlib import Path

from pykubelet.base.errors import Invalid, NotFound
from pykubelet.cli.client.agent_socket import DEFAULT_SOCKET, running_agents
from pykubelet.cli.client.local_api import LocalApi
from pykubelet.cli.plan.suggestions import did_you_mean
from pykubelet.kubelet.types.podspec import each_container
from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import Pod


def api_of(socket: object) -> LocalApi:
    """Return the client for the socket given to the root command."""
    if not isinstance(socket, Path):
        raise Invalid("no socket given; use --socket")
    if socket == DEFAULT_SOCKET and not socket.exists() and len(running := running_agents()) > 1:
        found = ", ".join(map(str, running))
        raise Invalid(f"several agents run; choose one with --socket or PYKUBELET_SOCKET: {found}")
    return LocalApi(socket)


def list_pods(api: LocalApi, namespace: str = "") -> list[Pod]:
    """Return all pods of the agent, or those of one namespace, by namespace and name."""
    path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
    pods = [from_builtins(item, Pod) for item in api.get(path)["items"]]
    return sorted(pods, key=lambda pod: (pod.metadata.namespace, pod.metadata.name))


def find_pod(api: LocalApi, name: str, namespace: str = "") -> Pod:
    """Return the pod of that name; ``pod/NAME`` is possible, too.

    Static pods are also found by their manifest's name (without ``-NODENAME``).

    NotFound: it does not exist. Invalid: several namespaces have one.
    """
    prefix, slash, rest = name.partition("/")
    if slash and prefix in ("pod", "pods", "po"):
        name = rest
    pods = list_pods(api, namespace)
    found = [pod for pod in pods if pod.metadata.name == name] or [
        pod for pod in pods if pod.metadata.name == f"{name}-{pod.spec.node_name}"
    ]
    if not found:
        known = [pod.metadata.name.removesuffix(f"-{pod.spec.node_name}") for pod in pods]
        where = f" in namespace {namespace}" if namespace else ""
        advice = did_you_mean(name, known) or f"; existing pods: {', '.join(known) or 'none'}"
        raise NotFound(f"pod {name!r} not found{where}{advice}")
    if len(found) > 1:
        spaces = ", ".join(pod.metadata.namespace for pod in found)
        raise Invalid(f"pod {name!r} exists in several namespaces ({spaces}); choose one with -n")
    return found[0]


def find_container(pod: Pod, name: str | None) -> str:
    """Return the container's name after checking it; without a name the pod's first ordinary container.

    NotFound names the existing containers.
    """
    if name is None:
        return pod.spec.containers[0].name
    names = [container.name for _, container in each_container(pod)]
    if name not in names:
        advice = did_you_mean(name, names)
        raise NotFound(f"pod {pod.metadata.name} has no container {name!r}{advice}; it has: {', '.join(names)}")
    return name
