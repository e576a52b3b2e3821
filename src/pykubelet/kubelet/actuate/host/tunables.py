"""Sets the kernel's tunables of a Kubernetes node, or checks them (``protectKernelDefaults``).

Source: ``setupKernelTunables`` of the Go kubelet (``pkg/kubelet/cm/container_manager_linux.go``).
"""

import logging
from pathlib import Path
from typing import Final

from pykubelet.base.errors import Invalid

_log = logging.getLogger(__name__)
_ROOT: Final = Path("/proc/sys")
TUNABLES: Final = {
    "vm.overcommit_memory": 1,
    "vm.panic_on_oom": 0,
    "kernel.panic": 10,
    "kernel.panic_on_oops": 1,
    "kernel.keys.root_maxkeys": 1_000_000,
    "kernel.keys.root_maxbytes": 25_000_000,
}


def set_tunables(root: Path = _ROOT) -> None:
    """Set the tunables that differ. Those that cannot be set are logged in one warning; the agent works without them.

    ``root``: the directory of the tunables. Blocks for milliseconds.
    """
    failed = []
    for name, wanted in TUNABLES.items():
        try:
            before = _read(root, name)
            if before != wanted:
                _path(root, name).write_text(str(wanted))
                _log.info("kernel tunable set", extra={"tunable": name, "value": wanted, "before": before})
        except (OSError, ValueError) as error:
            failed.append(f"{name}={wanted}: {error}")
    if failed:
        _log.warning("kernel tunables not set: set them with sysctl", extra={"error": "; ".join(failed)})


def check_tunables(root: Path = _ROOT) -> None:
    """Raise Invalid, which names all tunables with another value and the remedy, if there are any. Blocks briefly."""
    wrong = []
    for name, wanted in TUNABLES.items():
        try:
            found = str(_read(root, name))
        except (OSError, ValueError) as error:
            found = str(error)
        if found != str(wanted):
            wrong.append(f"invalid kernel flag: {name}, expected value: {wanted}, actual value: {found}")
    if wrong:
        raise Invalid(
            f"protectKernelDefaults: {'; '.join(wrong)}; set them in a file of /etc/sysctl.d, or set "
            "protectKernelDefaults: false"
        )


def _read(root: Path, name: str) -> int:
    return int(_path(root, name).read_text())


def _path(root: Path, name: str) -> Path:
    return root / name.replace(".", "/")
