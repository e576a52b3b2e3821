"""Port mappings of a sandbox: container ports and their host ports."""

from collections.abc import Iterator

from pykubelet.kubelet.types.podspec import is_sidecar
from pykubelet.models.core_v1 import Container, ContainerPort, Pod
from pykubelet.pb import runtime_v1_pb2 as pb

_PROTOCOLS = {"TCP": pb.TCP, "UDP": pb.UDP, "SCTP": pb.SCTP}


def port_mappings(pod: Pod) -> tuple[pb.PortMapping, ...]:
    """Mappings for all ports of ordinary containers and sidecars; host port 0 means no host port.

    Sidecars count, since the scheduler reserves their host ports too.
    """
    return tuple(
        pb.PortMapping(
            protocol=_PROTOCOLS.get(port.protocol, pb.TCP),
            container_port=port.container_port,
            host_port=port.host_port or 0,
            host_ip=port.host_ip,
        )
        for container in _containers_with_ports(pod)
        for port in _distinct(container)
    )


def _containers_with_ports(pod: Pod) -> Iterator[Container]:
    yield from pod.spec.containers
    yield from (container for container in pod.spec.init_containers if is_sidecar(container))


def _distinct(container: Container) -> Iterator[ContainerPort]:
    """The container's ports without duplicates, by name, or by all fields if they have no name."""
    seen: set[object] = set()
    for port in container.ports:
        # Ports of both address families may only differ in the family.
        family = ("v6" if ":" in port.host_ip else "v4") if port.host_ip else "any"
        key: object = port.name or (
            family, port.protocol, port.host_ip, port.container_port, port.host_port or 0
        )  # fmt: skip
        if key not in seen:
            seen.add(key)
            yield port
