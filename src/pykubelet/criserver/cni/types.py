"""Network configurations, what is asked of them and what they answer."""

from dataclasses import dataclass
from typing import TypeAlias

from msgspec import Struct

from pykubelet.criserver.types import SandboxID

Json: TypeAlias = dict[str, object]


class Masquerade(Struct, frozen=True):
    """The pods of a bridge, whose addresses other networks do not know."""

    bridge: str
    subnet: str


class NetworkList(Struct, frozen=True):
    """A network configuration list: plugins that are called one after the other."""

    name: str
    version: str
    plugins: tuple[Json, ...]
    disable_check: bool = False
    masquerade: Masquerade | None = None
    """What this server does for it beside the plugins."""


class PortMap(Struct, frozen=True):
    """A port of the node that leads to a port of the pod. ``protocol`` is ``tcp``, ``udp`` or ``sctp``."""

    host_port: int
    container_port: int
    protocol: str
    host_ip: str = ""


class AttachRequest(Struct, frozen=True):
    """What to connect. ``netns`` is a path; rates are bits per second, 0 for none."""

    sandbox: SandboxID
    netns: str
    namespace: str
    pod: str
    uid: str
    ports: tuple[PortMap, ...] = ()
    ingress_rate: int = 0
    egress_rate: int = 0
    dns_servers: tuple[str, ...] = ()
    dns_searches: tuple[str, ...] = ()
    dns_options: tuple[str, ...] = ()
    ips: tuple[str, ...] = ()
    """Addresses asked for by name, with or without prefix lengths; empty for any."""
    mac: str = ""
    interface: str = "eth0"


class Attachment(Struct, frozen=True):
    """What is kept on disk from before ADD until after DEL: all that DEL needs, even if the configuration is gone."""

    request: AttachRequest
    network: NetworkList
    result: Json | None = None


@dataclass(frozen=True, slots=True)
class Attached:
    """The pod's addresses, those of the first family first."""

    ips: tuple[str, ...]
