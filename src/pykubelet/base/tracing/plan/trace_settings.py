"""The settings of traces, as both daemons have them."""

import re

from msgspec import Struct

from pykubelet.base.errors import Invalid

DEFAULT_ENDPOINT = "localhost:4317"
"""The address where OTLP collectors listen for gRPC."""
_MILLION = 1_000_000
_HOST_PORT = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})")
_HIGHEST_PORT = 65535


class TraceSettings(Struct, frozen=True, kw_only=True):
    """Destination of spans, and sampling ratio of traces."""

    endpoint: str
    """``HOST:PORT`` or ``unix:///PATH`` of an OTLP collector that speaks gRPC without TLS."""
    ratio: float
    """Share of the traces that begin here and are recorded, 0 to 1. Traces that a client records are continued."""


def trace_settings(endpoint: str, per_million: int) -> TraceSettings:
    """Return the settings for an endpoint (empty: ``localhost:4317``) and a number of samples per million traces.

    Raises Invalid, whose text begins with the field as in TracingConfiguration of Kubernetes.
    """
    endpoint = endpoint or DEFAULT_ENDPOINT
    if not 0 <= per_million <= _MILLION:
        raise Invalid(f"samplingRatePerMillion: must be from 0 to {_MILLION}, not {per_million}")
    for scheme in ("http://", "dns:///"):  # not https://, which would promise TLS
        endpoint = endpoint.removeprefix(scheme)
    found = _HOST_PORT.fullmatch(endpoint)
    path = endpoint.removeprefix("unix://") if endpoint.startswith("unix:///") else ""
    if not path and (found is None or not 0 < int(found[1]) <= _HIGHEST_PORT):
        raise Invalid(f"endpoint: {endpoint!r} must be HOST:PORT or unix:///PATH of an OTLP collector (gRPC)")
    return TraceSettings(endpoint=endpoint, ratio=per_million / _MILLION)
