"""Derivations from a pod's spec that more than one stage needs."""

from collections.abc import Iterator

from pykubelet.base.http.port_number import parse_port
from pykubelet.kubelet.types.runtime import ContainerKind
from pykubelet.models.core_v1 import Container, EphemeralContainer, Pod

AnyContainer = Container | EphemeralContainer


def is_sidecar(container: AnyContainer) -> bool:
    """Whether an init container is a sidecar, which runs along with the ordinary containers (KEP-753)."""
    return isinstance(container, Container) and container.restart_policy == "Always"


def each_container(pod: Pod) -> Iterator[tuple[ContainerKind, AnyContainer]]:
    """Yield all containers of a pod with their kind: init, ordinary, ephemeral."""
    for container in pod.spec.init_containers:
        yield ContainerKind.INIT, container
    for container in pod.spec.containers:
        yield ContainerKind.CONTAINER, container
    for ephemeral in pod.spec.ephemeral_containers:
        yield ContainerKind.EPHEMERAL, ephemeral


def find_container(pod: Pod, name: str) -> tuple[ContainerKind, AnyContainer] | None:
    """Return the container with this name and its kind; None if it does not exist."""
    return next(((kind, c) for kind, c in each_container(pod) if c.name == name), None)


def port_number(container: AnyContainer, port: int | str) -> int | None:
    """Resolve a port given as a number, digits or the name of a container port; None if it does not exist."""
    if isinstance(port, int):
        return port if 0 < port < 65536 else None
    named = next((p.container_port for p in container.ports if p.name == port), None)
    if named is not None:
        return named
    return parse_port(port)


def grace_period(pod: Pod) -> int:
    """Return the termination grace period in seconds: that of the deletion, else that of the spec, else 30."""
    for value in (pod.metadata.deletion_grace_period_seconds, pod.spec.termination_grace_period_seconds):
        if value is not None:
            return value
    return 30
