"""Wrappers of the OCI runtime and of a CNI plugin that pass calls on until they are ordered to misbehave. Blocking."""

import shutil
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pykubelet.base.errors import NotFound

PLUGINS = Path("/usr/lib/cni")
_PLUGIN = "bridge"
_WRAPPER = """\
#!/bin/sh
# Hangs for as long as it is told to, and then goes on.
order() {{ how=; read -r how 2>/dev/null <{order}; }}
order
while [ "$how" = hang ]; do sleep 0.1; order; done
case "$how" in
fail) echo '{{"cniVersion":"0.4.0","code":11,"msg":"made to fail"}}'; echo 'made to fail' >&2; exit 1;;
garbage) head -c 4096 /dev/urandom; exit 0;;
flood) yes '{{"cniVersion":' | head -c 64000000; exit 0;;
esac
exec {program} "$@"
"""


class Order(StrEnum):
    """Behavior of a wrapper."""

    WORK = "work"
    HANG = "hang"
    """Hang until the order changes, then run the program."""
    FAIL = "fail"
    GARBAGE = "garbage"
    """Print random bytes, and report success."""
    FLOOD = "flood"
    """Print 64 MB, and report success."""


@dataclass(frozen=True, slots=True)
class Switch:
    """One wrapper and its current order."""

    path: Path
    """Path of the wrapper."""
    program: str
    """Path of the wrapped program."""

    @property
    def _order(self) -> Path:
        return self.path.with_name(f".{self.path.name}.order")

    def install(self) -> None:
        """Write the wrapper; it runs the program."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(_WRAPPER.format(order=self._order, program=self.program))
        self.path.chmod(0o755)
        self.order(Order.WORK)

    def order(self, what: Order) -> None:
        """Set the behavior from the next start of the wrapper on."""
        temporary = self._order.with_name(f"{self._order.name}.tmp")
        temporary.write_text(f"{what}\n")
        temporary.rename(self._order)

    def remove(self) -> None:
        """Remove the wrapper, so that the program is missing."""
        self.path.unlink()


def oci_runtime(directory: Path) -> Switch:
    """Create a wrapper of runc."""
    program = shutil.which("runc")
    if program is None:
        raise NotFound("runc is missing; install it with: apt-get install runc")
    return Switch(directory / "runc", program)


def network_plugin(directory: Path) -> Switch:
    """Create a wrapper of the bridge plugin; ``directory`` gets links to all other plugins."""
    directory.mkdir(parents=True, exist_ok=True)
    for plugin in PLUGINS.iterdir():
        link = directory / plugin.name
        if plugin.name != _PLUGIN and not link.is_symlink():
            link.symlink_to(plugin)
    return Switch(directory / _PLUGIN, str(PLUGINS / _PLUGIN))
