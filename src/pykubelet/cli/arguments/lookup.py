"""Finds the pod and container that the user names.

Works on the JSON objects of the agent's answers: most commands need a few fields only, and the models of all Kubernetes
objects take longer to import than such a command runs. :mod:`pykubelet.cli.arguments.pod_objects` has the typed pods.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pykubelet.base.errors import Invalid, NotFound, Permanent
from pykubelet.base.suggestion import did_you_mean
from pykubelet.cli.client.agent_socket import DEFAULT_SOCKET, may_exist, running_agents
from pykubelet.cli.client.local_api import LocalApi

_WORDS = ("pod", "pods", "po")
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


@dataclass(frozen=True, slots=True)
class FoundPod:
    """A pod of the agent."""

    item: Any
    """The pod as JSON object."""
    namespace: str
    name: str

    @property
    def node_name(self) -> str:
        """The name of its node; empty: not set."""
        return str(self.item.get("spec", {}).get("nodeName", ""))

    @property
    def containers(self) -> list[Any]:
        """The JSON objects of all its containers: init, ordinary, ephemeral."""
        spec = self.item.get("spec", {})
        return [container for group in _CONTAINERS for container in spec.get(group) or ()]


def api_of(socket: object) -> LocalApi:
    """Return the client for the socket given to the root command."""
    if not isinstance(socket, Path):
        raise Invalid("no socket given; use --socket")
    if socket == DEFAULT_SOCKET and not may_exist(socket) and len(running := running_agents()) > 1:
        found = ", ".join(map(str, running))
        raise Invalid(f"several agents run; choose one with --socket or PYKUBELET_SOCKET: {found}")
    return LocalApi(socket)


def list_pods(api: LocalApi, namespace: str = "", *, selector: str = "") -> list[FoundPod]:
    """Return the pods of the agent by namespace and name: all, or those of a namespace, or with labels."""
    path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
    answer = api.get(path, labelSelector=selector)
    try:
        pods = [
            FoundPod(item, str(item["metadata"]["namespace"]), str(item["metadata"]["name"]))
            for item in answer["items"]
        ]
    except (LookupError, TypeError) as error:
        raise Permanent(
            f"the answer from {api.path} to {path} is no list of pods; another program may listen there"
        ) from error
    return sorted(pods, key=lambda pod: (pod.namespace, pod.name))


def find_pod(api: LocalApi, name: str, namespace: str = "") -> FoundPod:
    """Return the pod of that name; ``pod/NAME`` is possible, too.

    Static pods are also found by their manifest's name (without ``-NODENAME``).

    NotFound: it does not exist. Invalid: several namespaces have one.
    """
    prefix, slash, rest = name.partition("/")
    if slash and prefix in _WORDS:
        name = rest
    pods = list_pods(api, namespace)
    found = [pod for pod in pods if pod.name == name] or [pod for pod in pods if pod.name == f"{name}-{pod.node_name}"]
    if not found:
        known = [pod.name.removesuffix(f"-{pod.node_name}") for pod in pods]
        if name in _WORDS:
            raise NotFound(f"give the name of a pod behind {name!r}; existing pods: {', '.join(known) or 'none'}")
        where = f" in namespace {namespace}" if namespace else ""
        advice = did_you_mean(name, known) or f"; existing pods: {', '.join(known) or 'none'}"
        raise NotFound(f"pod {name!r} not found{where}{advice}")
    if len(found) > 1:
        spaces = ", ".join(pod.namespace for pod in found)
        raise Invalid(f"pod {name!r} exists in several namespaces ({spaces}); choose one with -n")
    return found[0]


def find_container(pod: FoundPod, name: str | None) -> str:
    """Return the container's name after checking it; without a name the pod's first ordinary container.

    NotFound names the existing containers.
    """
    if name is None:
        return str(pod.item["spec"]["containers"][0]["name"])
    names = [str(container["name"]) for container in pod.containers]
    if name not in names:
        advice = did_you_mean(name, names)
        raise NotFound(f"pod {pod.name} has no container {name!r}{advice}; it has: {', '.join(names)}")
    return name
