"""The runtime handlers: the configured OCI runtimes by name."""

from collections.abc import Mapping
from dataclasses import dataclass

from pykubelet.base.errors import Invalid
from pykubelet.criserver.oci.runtime import OciRuntime


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeHandlers:
    """The OCI runtimes by the name of their handler."""

    runtimes: Mapping[str, OciRuntime]
    default: str
    """The handler of sandboxes that request none; it is among ``runtimes``."""

    def requested(self, handler: str) -> str:
        """The name of a requested handler; empty: the default one. Invalid: no runtime is configured for it."""
        handler = handler or self.default
        if handler not in self.runtimes:
            known = ", ".join(sorted(self.runtimes))
            raise Invalid(f"no runtime is configured for handler {handler!r}; configured handlers: {known}")
        return handler

    def recorded(self, handler: str) -> str:
        """The name of a sandbox's handler; the default one if its own is no longer configured."""
        return handler if handler in self.runtimes else self.default

    def runtime(self, handler: str) -> OciRuntime:
        """The OCI runtime of a sandbox's handler; the default one if its own is no longer configured."""
        return self.runtimes[self.recorded(handler)]
