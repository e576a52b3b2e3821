"""Finding the pod and container that the user means."""

from pathlib import Path

from pykubelet.base.errors import Invalid, NotFound
from pykubelet.cli.local_api import LocalApi
from pykubelet.kubelet.types.podspec import each_container
from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import Pod


def api_of(socket: object) -> LocalApi:
    """The client for the socket that the root command was given."""
    if not isinstance(socket, Path):
        raise Invalid("no socket given")
    return LocalApi(socket)


def list_pods(api: LocalApi, namespace: str = "") -> list[Pod]:
    """All pods of the agent, or those of one namespace, by namespace and name."""
    path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
    pods = [from_builtins(item, Pod) for item in api.get(path)["items"]]
    return sorted(pods, key=lambda pod: (pod.metadata.namespace, pod.metadata.name))


def find_pod(api: LocalApi, name: str, namespace: str = "") -> Pod:
    """The pod of that name; a static pod is also found by its name in the manifest (without ``-NODENAME``).

    NotFound: there is none. Invalid: several namespaces have one, say which.
    """
    pods = list_pods(api, namespace)
    found = [pod for pod in pods if pod.metadata.name == name] or [
        pod for pod in pods if pod.metadata.name == f"{name}-{pod.spec.node_name}"
    ]
    if not found:
        known = ", ".join(pod.metadata.name for pod in pods) or "none"
        where = f" in namespace {namespace}" if namespace else ""
        raise NotFound(f"no pod {name!r}{where}; the agent has: {known}")
    if len(found) > 1:
        spaces = ", ".join(pod.metadata.namespace for pod in found)
        raise Invalid(f"pod {name!r} exists in several namespaces ({spaces}); name one with -n")
    return found[0]


def find_container(pod: Pod, name: str | None) -> str:
    """The container's name, checked; without one the pod's first ordinary container.

    NotFound names the containers there are.
    """
    if name is None:
        return pod.spec.containers[0].name
    names = [container.name for _, container in each_container(pod)]
    if name not in names:
        raise NotFound(f"pod {pod.metadata.name} has no container {name!r}; it has: {', '.join(names)}")
    return name
