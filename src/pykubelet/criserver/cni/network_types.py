"""Network configurations, attach requests and their results."""

from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.criserver.types import SandboxID

Json: TypeAlias = dict[str, object]


class Masquerade(Struct, frozen=True):
    """A bridge whose pods need masquerading, as other networks have no route to their addresses."""

    bridge: str
    subnet: str


class NetworkList(Struct, frozen=True):
    """A network configuration list: plugins that are called in this order."""

    name: str
    version: str
    plugins: tuple[Json, ...]
    disable_check: bool = False
    masquerade: Masquerade | None = None
    """The masquerading that this server does in addition to the plugins."""
    disable_gc: bool = False
    only_inlined: bool = False
    """Its plugins are all in its own file, none in the directory that is named after it."""


class PortMap(Struct, frozen=True):
    """A host port that is forwarded to a port of the pod. ``protocol`` is ``tcp``, ``udp`` or ``sctp``."""

    host_port: int
    container_port: int
    protocol: str
    host_ip: str = ""


class AttachRequest(Struct, frozen=True):
    """A sandbox to attach. ``netns`` is a path; rates are in bits per second, 0 for no limit."""

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
    """Requested addresses, with or without prefix lengths; empty for any."""
    mac: str = ""
    interface: str = "eth0"
    annotations: dict[str, str] = {}
    """The pod's, for plugins that ask for them."""
    cgroup_parent: str = ""
    conf_dir: str = ""
    """The directory of the network configurations of its runtime handler; empty: the node's."""
    max_networks: int = 0
    """Number of networks of ``conf_dir`` that the sandbox gets; 0: as many as of the node's."""

    def on(self, index: int) -> "AttachRequest":
        """The request for the network at this place, whose interface is ``eth<index>``.

        The addresses that a pod requests are those of its first network.
        """
        return replace(self, interface=f"eth{index}", ips=(), mac="") if index else self


class FurtherNetwork(Struct, frozen=True):
    """A network of a sandbox behind its first one."""

    network: NetworkList
    result: Json | None = None


class HandlerNetworks(Struct, frozen=True):
    """The networks of a runtime handler's pods."""

    directory: str
    """Has their configurations."""
    most: int = 0
    """Number of them that a pod gets; 0: as many as of the node's."""


class Attachment(Struct, frozen=True):
    """The record on disk from before ADD until after DEL: all that DEL needs, even if the configuration is removed."""

    request: AttachRequest
    network: NetworkList
    result: Json | None = None
    further: tuple[FurtherNetwork, ...] = ()

    def parts(self) -> tuple["Attachment", ...]:
        """The attachment to each network by itself, the first one first."""
        others = enumerate(self.further, 1)
        return (
            Attachment(self.request, self.network, self.result),
            *(Attachment(self.request.on(index), each.network, each.result) for index, each in others),
        )


class PodAddresses(Struct, frozen=True):
    """The pod's addresses, those of the first family first."""

    ips: tuple[str, ...]
