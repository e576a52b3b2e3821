"""The settings in force, for components that read them at each decision, and what takes new ones in a reload."""

from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from msgspec import Struct

from pykubelet.kubelet.config.settings import Settings

T = TypeVar("T")


class LiveSettings:
    """The settings in force; a reload of the configuration replaces them as a whole."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def current(self) -> Settings:
        """Return the settings in force. They are complete and valid, and never change: a reload makes others."""
        return self._settings

    def reconfigure(self, settings: Settings) -> None:
        """Use these settings from now on."""
        self._settings = settings


class LivePart(Struct, Generic[T], frozen=True, kw_only=True):
    """A component that takes new settings while it runs."""

    fields: frozenset[str]
    """The fields of the configuration that its settings are made of, by their names in the file."""
    convert: Callable[[Settings], T]
    """Makes the component's own settings; PykubeletError: they are invalid. Runs in a thread, and may block."""
    reconfigure: Callable[[T], None]
    """Gives them to the component, which uses them from its next decision on. Never fails."""

    def prepare(self, settings: Settings) -> Callable[[], None]:
        """Make the component's settings; return the function that gives them to the component."""
        return partial(self.reconfigure, self.convert(settings))
