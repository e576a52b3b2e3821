"""What a runtime is built on, with a switch: wrappers of the OCI runtime and of a CNI plugin that work until told
otherwise. Blocking."""

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
    """What a wrapper does."""

    WORK = "work"
    HANG = "hang"
    """Until the order changes; it works then."""
    FAIL = "fail"
    GARBAGE = "garbage"
    """Print random bytes, and report success."""
    FLOOD = "flood"
    """Print 64 MB, and report success."""


@dataclass(frozen=True, slots=True)
class Switch:
    """One wrapper and its orders."""

    path: Path
    """The wrapper."""
    program: str
    """What it wraps."""

    @property
    def _order(self) -> Path:
        return self.path.with_name(f".{self.path.name}.order")

    def install(self) -> None:
        """Write the wrapper; it works."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(_WRAPPER.format(order=self._order, program=self.program))
        self.path.chmod(0o755)
        self.order(Order.WORK)

    def order(self, what: Order) -> None:
        """From its next start on."""
        temporary = self._order.with_name(f"{self._order.name}.tmp")
        temporary.write_text(f"{what}\n")
        temporary.rename(self._order)

    def remove(self) -> None:
        """Let the program be missing."""
        self.path.unlink()


def oci_runtime(directory: Path) -> Switch:
    """runc behind a switch."""
    program = shutil.which("runc")
    if program is None:
        raise NotFound("runc is missing; install it with: apt-get install runc")
    return Switch(directory / "runc", program)


def network_plugin(directory: Path) -> Switch:
    """The bridge plugin behind a switch; ``directory`` gets links to all others."""
    directory.mkdir(parents=True, exist_ok=True)
    for plugin in PLUGINS.iterdir():
        link = directory / plugin.name
        if plugin.name != _PLUGIN and not link.is_symlink():
            link.symlink_to(plugin)
    return Switch(directory / _PLUGIN, str(PLUGINS / _PLUGIN))
