"""What the tests, the benchmarks and the demo ask of a private runtime, whichever it is."""

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pykubelet.testing.ociimage import ImageSpec


@dataclass(frozen=True, slots=True)
class RuntimeTraces:
    """Where pods leave something on the machine while they are there, in the terms of ``leakcheck.Scope``."""

    process_marks: tuple[str, ...]
    """Of the monitors or shims, not of the daemon."""
    mount_roots: tuple[str, ...]
    netns_directories: tuple[str, ...]
    directories: tuple[str, ...]
    """Files in them that belong to pods."""


class PrivateRuntime(Protocol):
    """A runtime with its own root, socket, bridge and address range."""

    @property
    def name(self) -> str:
        """As it calls itself over CRI; container ids in statuses begin with it."""
        ...

    @property
    def home(self) -> Path:
        """The directory of everything."""
        ...

    @property
    def bridge(self) -> str:
        """Its bridge, which is also its network's name."""
        ...

    @property
    def socket(self) -> Path: ...

    @property
    def endpoint(self) -> str:
        """The socket as a CRI endpoint."""
        ...

    def start(self) -> None:
        """Start it unless it runs; returns when its CRI service answers. Permanent: it did not come up."""
        ...

    def load(self, spec: ImageSpec) -> None:
        """Pack an image from busybox and import it."""
        ...

    def pid(self) -> int | None:
        """The daemon's process id while it runs."""
        ...

    def stop(self) -> None:
        """Stop the daemon; its containers go on."""
        ...

    def signal(self, number: signal.Signals) -> None:
        """Send a signal that ends the daemon and wait for its end."""
        ...

    def traces(self) -> RuntimeTraces:
        """Where to look for what pods have left."""
        ...

    def destroy(self) -> None:
        """Remove every trace: containers, monitors, daemon, bridge, mounts and files. Works after any crash."""
        ...


def bridge_network(bridge: str, subnet: str, ipam: Path, chained: Sequence[str] = ()) -> dict[str, object]:
    """A CNI configuration: a bridge of its own, host ports, addresses noted below ``ipam``; then further plugins."""
    ranges = [[{"subnet": subnet}]]
    routes = [{"dst": "0.0.0.0/0"}]
    addresses = {"type": "host-local", "dataDir": str(ipam), "ranges": ranges, "routes": routes}
    link = {"type": "bridge", "bridge": bridge, "isGateway": True, "ipMasq": True, "hairpinMode": True}
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    further = [{"type": name} for name in chained]
    return {"cniVersion": "0.4.0", "name": bridge, "plugins": [{**link, "ipam": addresses}, ports, *further]}
