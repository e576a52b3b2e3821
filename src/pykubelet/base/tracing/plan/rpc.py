"""The names of spans of calls, by OpenTelemetry's conventions for RPC."""

from collections.abc import Iterable


def rpc_span(service: str, method: str) -> tuple[str, dict[str, str]]:
    """Return the name and the attributes of the span of a gRPC call; ``service`` has its package."""
    return f"{service}/{method}", {"rpc.system": "grpc", "rpc.service": service, "rpc.method": method}


def trace_headers(metadata: Iterable[tuple[str, str | bytes]]) -> dict[str, str]:
    """Return the headers of a trace among the metadata of a call."""
    return {name: value for name, value in metadata if name in ("traceparent", "tracestate") and isinstance(value, str)}
