"""The address of /metrics: a port of a loopback address, or the path of a unix socket."""

import ipaddress
from pathlib import Path

from msgspec import Struct

from pykubelet.base.errors import Invalid
from pykubelet.base.http.port_number import parse_port


class MetricsAddress(Struct, frozen=True):
    """A unix socket if there is a ``path``, else host and port."""

    host: str = ""
    port: int = 0
    path: Path | None = None


def parse_metrics_address(text: str) -> MetricsAddress | None:
    """Parse ``127.0.0.1:PORT``, ``[::1]:PORT`` or an absolute path; None if it is empty.

    Invalid: it is none of these, or not a loopback address: clients of /metrics are not authenticated.
    """
    if not text:
        return None
    if text.startswith("/"):
        return MetricsAddress(path=Path(text))
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    number = parse_port(port)
    if not loopback or number is None:
        raise Invalid(
            f"metrics_address {text!r} must be a port of a loopback address, such as 127.0.0.1:9412, or the absolute "
            "path of a unix socket"
        )
    return MetricsAddress(host, number)
