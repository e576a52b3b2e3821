"""Remove the leftovers of killed daemons from the machine: mounts, cgroups and firewall rules, by name. Blocking."""

import contextlib
import os
import re
import signal
import subprocess
from pathlib import Path

from pykubelet.base.errors import Conflict
from pykubelet.linux.filesystems.removal import remove_tree

_CGROUPS = Path("/sys/fs/cgroup")
_JUMP = re.compile(r" -j (CNI-[A-Za-z0-9-]+)")


def mounts_below(directory: Path) -> list[str]:
    """Mount points below a directory, the deepest first."""
    rows = Path("/proc/self/mountinfo").read_text().splitlines()
    # The kernel escapes spaces in paths as octal numbers; the paths of the tests contain none.
    found = [row.split()[4] for row in rows if row.split()[4].startswith(f"{directory}/")]
    return sorted(found, key=len, reverse=True)


def kill_processes(directory: Path) -> None:
    """Kill every process whose command line or environment names something below the directory.

    These are the daemons of a killed session, and CNI plugins, which have the network namespace in a variable and
    would continue to write firewall rules.
    """
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                known = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                if f"{directory}/".encode() in known:
                    os.kill(int(entry.name), signal.SIGKILL)


def remove_mounts(directory: Path) -> None:
    """Unmount everything below a directory, even if it is in use."""
    for mount in mounts_below(directory):
        subprocess.run(["umount", "-l", mount], capture_output=True)


def remove_files(directory: Path) -> None:
    """Remove a directory and all below it, at any depth; what the kernel refuses to remove stays, all else goes."""
    with contextlib.suppress(OSError, Conflict):
        remove_tree(directory)


def remove_cgroups(parent: str) -> None:
    """Remove a cgroup and all below it from every hierarchy; processes in it must be gone."""
    name = parent.strip("/")
    if not name:
        raise ValueError("refusing to remove the root cgroup")
    for top in (_CGROUPS / name, *(hierarchy / name for hierarchy in _CGROUPS.iterdir())):
        directories = [str(top)]
        for directory in directories:  # no recursion: a container may have made it very deep
            with contextlib.suppress(OSError), os.scandir(directory) as entries:
                directories += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        for directory in reversed(directories):
            with contextlib.suppress(OSError):
                Path(directory).rmdir()


def remove_firewall_rules(network: str) -> None:
    """Remove the rules and chains that the CNI plugins created for a network's pods and did not remove.

    The plugins write the network's name into a comment of every rule that leads to one of their chains. The rules of
    ``pykubelet criserver`` are removed too.
    """
    for row in _iptables("-S", table="mangle"):
        if f'"pods of {network}"' in row and row.startswith("-A "):
            subprocess.run(["sh", "-c", f"iptables -w -t mangle -D {row[3:]}"], capture_output=True)
    listing, marks = _iptables("-S"), (f'name: \\"{network}\\"', f'"pods of {network}"')
    rules = [row for row in listing if any(mark in row for mark in marks) and row.startswith("-A ")]
    chains = {match[1] for match in map(_JUMP.search, rules) if match}
    for row in rules:
        # A listing is quoted for a shell, so that it can be parsed as a command line.
        subprocess.run(["sh", "-c", f"iptables -w -t nat -D {row[3:]}"], capture_output=True)
    for chain in chains:
        _iptables("-F", chain)
    for chain in chains:
        _iptables("-X", chain)


def _iptables(*arguments: str, table: str = "nat") -> list[str]:
    try:
        command = ["iptables", "-w", "-t", table, *arguments]
        return subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    except FileNotFoundError:
        return []
