"""The machine as sandboxes and containers use it: its facts, and the programs and drivers that do the work."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field

from pykubelet.criserver.cni import HandlerNetworks
from pykubelet.criserver.config.host_facts import kernel_cgroup
from pykubelet.criserver.conmon import Conmon
from pykubelet.criserver.runtimes import ContainerRuntime, RuntimeHandlers
from pykubelet.criserver.spec import HandlerOptions, Host
from pykubelet.linux.cgroups import CgroupDriver
from pykubelet.linux.cgroups.oom import OomCounter, OomWatch


class OomKills(Protocol):
    """The kernel's counts of OOM kills."""

    def follow(self, cgroup: str) -> None:
        """Notice from now on the OOM kills in a cgroup that vanishes with its last process. Blocks briefly."""
        ...

    def forget(self, cgroup: str) -> None:
        """Drop what was noticed since ``follow``. Idempotent."""
        ...

    def of_container(self, cgroup: str) -> int:
        """Count the OOM kills in a container's cgroup. Blocks briefly."""
        ...

    def of_pod(self, cgroup: str) -> int:
        """Count those in the pod of a container's cgroup if that vanishes with its last process; else 0."""
        ...


class CgroupOomKills:
    """Reads the counts from the cgroups.

    systemd removes a scope with its last process, and the kernel's count with it. So its scopes are watched while they
    exist; conmon notes kills as well, but not each: version 2.1.6 stops to watch at the first change that is no kill.
    """

    def __init__(self, counter: OomCounter, *, systemd: bool) -> None:
        """``systemd``: systemd manages the cgroups."""
        self._counter = counter
        self._systemd = systemd
        self._watch = OomWatch(counter)

    def close(self) -> None:
        """Watch no cgroup any more. Idempotent."""
        self._watch.close()

    def follow(self, cgroup: str) -> None:
        """Notice the OOM kills in a container's cgroup from now on if systemd manages it. Blocks briefly."""
        if self._systemd:
            self._watch.follow(kernel_cgroup(cgroup))

    def forget(self, cgroup: str) -> None:
        """Drop what was noticed since ``follow``. Idempotent."""
        self._watch.forget(kernel_cgroup(cgroup))

    def of_container(self, cgroup: str) -> int:
        """Count the OOM kills in a container's cgroup, also those noticed since ``follow``. Blocks briefly."""
        path = kernel_cgroup(cgroup)
        return max(self._counter.kills(path), self._watch.kills(path))

    def of_pod(self, cgroup: str) -> int:
        """Count those in the pod of a container's cgroup if systemd manages it; else 0.

        Version 2 counts in parents, too. This is for kills that ended the container at once.
        """
        return self._counter.kills(str(Path(kernel_cgroup(cgroup)).parent)) if self._systemd else 0


class ConfiguredHandlers(Struct, frozen=True, kw_only=True):
    """The runtime handlers of one version of the configuration."""

    runtimes: Mapping[str, ContainerRuntime]
    default: str
    options: Mapping[str, HandlerOptions]
    networks: Mapping[str, HandlerNetworks]


class Machine(Struct, frozen=True, kw_only=True):
    """Facts of the machine, and wrappers of its programs and cgroups."""

    host: Host
    cgroups: CgroupDriver
    handlers: RuntimeHandlers
    conmon: Conmon
    oom_kills: OomKills
    handler_options: dict[str, HandlerOptions] = field(default_factory=dict)
    """By handler, also those that were removed by a reload; missing ones have the defaults."""
    networks: dict[str, HandlerNetworks] = field(default_factory=dict)
    """Of the handlers that have their own."""

    def configure(self, handlers: ConfiguredHandlers) -> None:
        """Use these handlers from now on. Sandboxes of removed ones keep the former runtime and options."""
        self.handlers.replace(handlers.runtimes, handlers.default)
        self.handler_options.update(handlers.options)
        self.networks.clear()
        self.networks.update(handlers.networks)

    def options(self, handler: str) -> HandlerOptions:
        """The options of a handler, or of the default one if it is no longer configured."""
        return self.handler_options.get(self.handlers.recorded(handler), HandlerOptions())
