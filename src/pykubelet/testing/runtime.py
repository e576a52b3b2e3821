"""The interface of a private runtime for the tests, the benchmarks and the demo."""

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pykubelet.testing.ociimage import ImageSpec


@dataclass(frozen=True, slots=True)
class RuntimeTraces:
    """The places on the machine that running pods use, in the terms of ``leakcheck.Scope``."""

    process_marks: tuple[str, ...]
    """Marks of the monitors or shims, not of the daemon."""
    mount_roots: tuple[str, ...]
    netns_directories: tuple[str, ...]
    directories: tuple[str, ...]
    """Directories whose files belong to pods."""


class PrivateRuntime(Protocol):
    """A runtime with its own root, socket, bridge and address range."""

    @property
    def name(self) -> str:
        """The runtime's name in CRI; container ids in statuses begin with it."""
        ...

    @property
    def home(self) -> Path:
        """The runtime's directory."""
        ...

    @property
    def bridge(self) -> str:
        """Name of its bridge and of its network."""
        ...

    @property
    def socket(self) -> Path: ...

    @property
    def endpoint(self) -> str:
        """The socket as a CRI endpoint."""
        ...

    def start(self) -> None:
        """Start the daemon unless it runs; returns when its CRI service responds. Permanent: it did not come up."""
        ...

    def load(self, spec: ImageSpec) -> None:
        """Build an image from busybox and import it."""
        ...

    def pid(self) -> int | None:
        """The daemon's process id; None if it does not run."""
        ...

    def stop(self) -> None:
        """Stop the daemon; its containers keep running."""
        ...

    def signal(self, number: signal.Signals) -> None:
        """Send a signal that ends the daemon, and wait until it has ended."""
        ...

    def traces(self) -> RuntimeTraces:
        """The places where pods can leave something behind."""
        ...

    def destroy(self) -> None:
        """Remove every trace: containers, monitors, daemon, bridge, mounts and files. Works after any crash."""
        ...


def bridge_network(bridge: str, subnet: str, ipam: Path, chained: Sequence[str] = ()) -> dict[str, object]:
    """A CNI configuration: a private bridge, host ports, addresses recorded below ``ipam``, chained plugins."""
    ranges = [[{"subnet": subnet}]]
    routes = [{"dst": "0.0.0.0/0"}]
    addresses = {"type": "host-local", "dataDir": str(ipam), "ranges": ranges, "routes": routes}
    link = {"type": "bridge", "bridge": bridge, "isGateway": True, "ipMasq": True, "hairpinMode": True}
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    further = [{"type": name} for name in chained]
    return {"cniVersion": "0.4.0", "name": bridge, "plugins": [{**link, "ipam": addresses}, ports, *further]}
