"""Service environment variables: ``NAME_SERVICE_HOST`` etc., and the variables of Docker links."""

from collections.abc import Iterable, Iterator

from pykubelet.models.core_v1 import Service

_MASTER = ("default", "kubernetes")


def service_variables(services: Iterable[Service], namespace: str, links: bool) -> dict[str, str]:
    """Service variables for a pod in `namespace`; `links` is its `enableServiceLinks`.

    The service of the API server is always included. Headless services have no cluster IP, so no variables.
    """
    chosen: dict[str, Service] = {}
    for service in services:
        meta = service.metadata
        if service.spec.cluster_ip in ("", "None") or not service.spec.ports:
            continue
        if (meta.namespace, meta.name) == _MASTER:
            chosen.setdefault(meta.name, service)
        elif meta.namespace == namespace and links:
            chosen[meta.name] = service
    return {name: value for _, service in sorted(chosen.items()) for name, value in _variables(service)}


def _variables(service: Service) -> Iterator[tuple[str, str]]:
    prefix, host = _variable_name(service.metadata.name), service.spec.cluster_ip
    yield f"{prefix}_SERVICE_HOST", host
    yield f"{prefix}_SERVICE_PORT", str(service.spec.ports[0].port)
    for port in service.spec.ports:
        if port.name:
            yield f"{prefix}_SERVICE_PORT_{_variable_name(port.name)}", str(port.port)
    shown_host = f"[{host}]" if ":" in host else host
    for index, port in enumerate(service.spec.ports):
        protocol = port.protocol or "TCP"
        address = f"{protocol.lower()}://{shown_host}:{port.port}"
        if index == 0:
            yield f"{prefix}_PORT", address
        port_prefix = f"{prefix}_PORT_{port.port}_{protocol.upper()}"
        yield port_prefix, address
        yield f"{port_prefix}_PROTO", protocol.lower()
        yield f"{port_prefix}_PORT", str(port.port)
        yield f"{port_prefix}_ADDR", host


def _variable_name(name: str) -> str:
    return name.replace("-", "_").upper()
