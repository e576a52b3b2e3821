"""The runtime handlers: the configured runtimes by name. A reload of the configuration replaces them."""

from collections.abc import Mapping

from pykubelet.base.errors import Invalid
from pykubelet.criserver.runtimes.monitored import MonitoredRuntime
from pykubelet.criserver.runtimes.runtime_interfaces import ContainerRuntime


class RuntimeHandlers:
    """The runtimes by the name of their handler. Those that a reload removes stay for their sandboxes."""

    def __init__(self, *, runtimes: Mapping[str, ContainerRuntime], default: str) -> None:
        """``default``: the handler of sandboxes that request none; it must be among ``runtimes``."""
        self._runtimes = dict(runtimes)
        self._removed: dict[str, ContainerRuntime] = {}
        self._default = default

    @property
    def runtimes(self) -> Mapping[str, ContainerRuntime]:
        """The runtimes that sandboxes can request now."""
        return self._runtimes

    @property
    def default(self) -> str:
        """The handler of sandboxes that request none."""
        return self._default

    def replace(self, runtimes: Mapping[str, ContainerRuntime], default: str) -> None:
        """Configure other handlers from now on."""
        known = self._removed | self._runtimes
        self._removed = {name: runtime for name, runtime in known.items() if name not in runtimes}
        self._runtimes, self._default = dict(runtimes), default

    def requested(self, handler: str) -> str:
        """The name of a requested handler; empty: the default one. Invalid: no runtime is configured for it."""
        handler = handler or self._default
        if handler not in self._runtimes:
            known = ", ".join(sorted(self._runtimes))
            raise Invalid(f"no runtime is configured for handler {handler!r}; configured handlers: {known}")
        return handler

    def shims(self) -> list[str]:
        """The names of the handlers that run shims, also of those that a reload has removed."""
        known = self._removed | self._runtimes
        return [name for name, runtime in known.items() if not isinstance(runtime, MonitoredRuntime)]

    def recorded(self, handler: str) -> str:
        """The name of a sandbox's handler; the default one if its own was not configured since the server's start."""
        return handler if handler in self._runtimes or handler in self._removed else self._default

    def runtime(self, handler: str) -> ContainerRuntime:
        """The runtime of a sandbox's handler; the default one as in ``recorded``."""
        name = self.recorded(handler)
        return self._runtimes.get(name) or self._removed[name]
