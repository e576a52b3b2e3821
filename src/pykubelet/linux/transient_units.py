"""Units that exist until the next boot: what is asked of systemd, apart from its client in `linux/systemd.py`.

Programs that only might need systemd import this module: it does not load D-Bus.

Source: org.freedesktop.systemd1(5).
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from msgspec import Struct

SOCKET: Final = Path("/run/systemd/private")
"""systemd's own socket, which is open to root."""
_BOOTED = Path("/run/systemd/system")

Value: TypeAlias = bool | int | str | list[str]


class Property(Struct, frozen=True):
    """A property of a unit with its D-Bus type (``t``: 64-bit integer, ``b``: boolean, ``as``: strings)."""

    name: str
    signature: str
    value: Value


class Units(Protocol):
    """Operations on systemd units."""

    def start_transient(self, name: str, properties: Iterable[Property]) -> None:
        """Create and start a unit; returns when it runs. Raises Conflict if a unit of that name exists."""
        ...

    def set_properties(self, name: str, properties: Iterable[Property]) -> None:
        """Change a unit until the next boot. Raises NotFound if the unit does not exist."""
        ...

    def stop(self, name: str) -> None:
        """Stop a unit and all its processes; returns when it has ended. Raises NotFound if the unit does not exist."""
        ...


def systemd_is_running() -> bool:
    """Whether systemd is the init of this machine and its private socket is accessible."""
    return _BOOTED.is_dir() and SOCKET.exists()
