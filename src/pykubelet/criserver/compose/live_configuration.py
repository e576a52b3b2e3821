"""Connects the reload of the configuration with the parts that take it, and with the status that shows it."""

from collections.abc import Callable
from functools import partial

from msgspec import Struct

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.criserver.cni import NetworkManager
from pykubelet.criserver.compose.handlers import HandlerFactory
from pykubelet.criserver.compose.image_policy import ConfiguredPolicy
from pykubelet.criserver.compose.images import ImageComponents
from pykubelet.criserver.compose.registries import ConfiguredRegistries
from pykubelet.criserver.config import Settings
from pykubelet.criserver.machine import Machine
from pykubelet.criserver.reload.config_reloader import ConfigInput, ConfigReloader, ConfigState


class ReloadDeps(Struct, frozen=True, kw_only=True):
    """The input of a reload, and the components that it changes."""

    given: ConfigInput
    clock: Clock
    machine: Machine
    handlers: HandlerFactory
    images: ImageComponents
    network: NetworkManager


class LiveConfiguration(Struct, frozen=True, kw_only=True):
    """The configuration in force, also in files that are read without a reload."""

    reloader: ConfigReloader
    registries: ConfiguredRegistries
    network: NetworkManager
    image_policy: ConfiguredPolicy

    def state(self) -> ConfigState:
        """Return the values of the configuration file that are in force."""
        return self.reloader.state()

    async def files(self) -> tuple[dict[str, object], list[str]]:
        """Return the values in force of files of registries and networks, and errors of these and of image policy."""
        registries, problems = await blocking.call("status", self.registries.described)
        problems = [*problems, *await blocking.call("status", self.image_policy.problems)]
        found: dict[str, object] = {"registries": registries, "cniconfig": self.network.described()}
        return found, [*problems, *self.network.problems()]


def build_reload(deps: ReloadDeps) -> LiveConfiguration:
    """Build what reloads the configuration."""
    registries = deps.images.registries
    reader = _RegistryReader(registries)
    return LiveConfiguration(
        reloader=ConfigReloader(
            given=deps.given,
            parts=(_Handlers(deps.machine, deps.handlers), _Registries(registries)),
            requested=(deps.network.reload, reader.read),
            clock=deps.clock,
        ),
        registries=registries,
        network=deps.network,
        image_policy=deps.images.policy,
    )


class _RegistryReader(Struct, frozen=True):
    registries: ConfiguredRegistries

    async def read(self) -> None:
        """Read the files of registries now, so that the log names what is wrong with them."""
        await blocking.call("configuration", self.registries.described)


class _Handlers(Struct, frozen=True):
    machine: Machine
    factory: HandlerFactory

    def prepare(self, settings: Settings) -> Callable[[], None]:
        """Build the handlers of the new settings."""
        return partial(self.machine.configure, self.factory.build(settings))


class _Registries(Struct, frozen=True):
    registries: ConfiguredRegistries

    def prepare(self, settings: Settings) -> Callable[[], None]:
        """Return the change; the entries are checked by the pulls that use them."""
        return partial(self.registries.configure, settings)
