"""Facts of the machine: memory, CPUs, kernel, identity. Read from /proc and /sys at each call."""

import os
import re
from functools import cache
from pathlib import Path

from msgspec import Struct

from pykubelet.base.units import KIB, Bytes, Seconds
from pykubelet.linux.errors import wrap

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}
_HUGEPAGES = re.compile(r"hugepages-(\d+)kB")


class MemInfo(Struct, frozen=True):
    """The memory of the machine, from /proc/meminfo."""

    total: Bytes
    available: Bytes
    free: Bytes
    swap_total: Bytes
    swap_free: Bytes


class HugePages(Struct, frozen=True):
    """Huge pages of one size."""

    size: Bytes
    total: int
    """Number of reserved pages."""


def meminfo(root: Path = Path("/")) -> MemInfo:
    """Read the memory figures of the machine."""
    table = {}
    for line in (root / "proc/meminfo").read_text(errors="replace").splitlines():
        name, _, rest = line.partition(":")
        table[name] = Bytes(int(rest.split()[0]) * KIB if rest.endswith("kB") else int(rest))
    zero = Bytes(0)
    return MemInfo(
        total=table["MemTotal"],
        available=table.get("MemAvailable", zero),
        free=table["MemFree"],
        swap_total=table.get("SwapTotal", zero),
        swap_free=table.get("SwapFree", zero),
    )


def hugepages(root: Path = Path("/")) -> tuple[HugePages, ...]:
    """The huge pages of each size that the kernel supports, smallest first."""
    found = []
    directory = root / "sys/kernel/mm/hugepages"
    for entry in directory.iterdir() if directory.is_dir() else ():
        match = _HUGEPAGES.fullmatch(entry.name)
        if match:
            count = int((entry / "nr_hugepages").read_text())
            found.append(HugePages(Bytes(int(match[1]) * KIB), count))
    return tuple(sorted(found, key=lambda pages: pages.size))


def cpu_count() -> int:
    """Logical CPUs that are online."""
    return os.cpu_count() or 1


def pid_limit(root: Path = Path("/")) -> int:
    """The number of processes and threads that the kernel allows in all."""
    limits = (root / "proc/sys/kernel/pid_max", root / "proc/sys/kernel/threads-max")
    return min(int(path.read_bytes()) for path in limits)


def process_count(root: Path = Path("/")) -> int:
    """The number of processes and threads (fourth field of /proc/loadavg)."""
    return int((root / "proc/loadavg").read_bytes().split()[3].partition(b"/")[2])


def kernel_version() -> str:
    return os.uname().release


def kernel_release() -> tuple[int, int]:
    """The first two numbers of the kernel's version."""
    numbers = re.findall(r"\d+", kernel_version())
    return int(numbers[0]), int(numbers[1])


def architecture() -> str:
    """The machine's architecture by its name in Kubernetes and OCI (`amd64`)."""
    machine = os.uname().machine
    return _ARCHITECTURES.get(machine, machine)


def app_armor_enabled(root: Path = Path("/")) -> bool:
    """Whether the kernel enforces AppArmor profiles."""
    return _text(root / "sys/module/apparmor/parameters/enabled").startswith("Y")


def hostname() -> str:
    return os.uname().nodename


def boot_id(root: Path = Path("/")) -> str:
    """The random id of the current boot; read once, since each process is compared with it."""
    return _boot_id(root)


@cache
def _boot_id(root: Path) -> str:
    return _text(root / "proc/sys/kernel/random/boot_id")


def boot_time(root: Path = Path("/")) -> Seconds:
    """Unix time of the last boot."""
    for line in (root / "proc/stat").read_text(errors="replace").splitlines():
        if line.startswith("btime "):
            return float(line.split()[1])
    return 0.0


def machine_id(root: Path = Path("/")) -> str:
    """The id of the installation (machine-id(5)); empty if it is missing."""
    return _text(root / "etc/machine-id") or _text(root / "var/lib/dbus/machine-id")


def system_uuid(root: Path = Path("/")) -> str:
    """The UUID of the machine from its firmware, else the machine id."""
    return _text(root / "sys/class/dmi/id/product_uuid") or machine_id(root)


def os_image(root: Path = Path("/")) -> str:
    """The display name of the operating system (`Debian GNU/Linux 12 (bookworm)`)."""
    for line in _text(root / "etc/os-release").splitlines():
        key, _, value = line.partition("=")
        if key == "PRETTY_NAME":
            return value.strip("\"'")
    return "Linux"


def own_cgroup_has(file: str, root: Path = Path("/")) -> bool:
    """Whether the cgroup (version 2) of this process has a control file, which means that the kernel has its feature.

    The root of the tree lacks most files. Without systemd the process may be there; then its children are checked.
    """
    tree = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        if line.startswith("0::/"):
            own = tree / line.removeprefix("0::/")
            return (own / file).exists() or (own == tree and any(tree.glob(f"*/{file}")))
    return False


def set_oom_score_adj(pid: int, score: int) -> bool:
    """Set the OOM score adjustment of a process (-1000…1000); returns False without permission.

    Lowering it needs CAP_SYS_RESOURCE, which an unprivileged or nested agent lacks; such an agent works without it.
    Raises NotFound if the process has ended.
    """
    try:
        Path(f"/proc/{pid}/oom_score_adj").write_text(str(score))
    except PermissionError:
        return False
    except OSError as error:
        raise wrap(error, f"cannot set the OOM score of process {pid}") from error
    return True


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
