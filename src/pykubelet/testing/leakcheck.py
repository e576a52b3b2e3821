"""Count the resources that a test could leave behind on the machine, before and after the test.

    scope = Scope(process_marks=("pktest-7f3a",), mount_roots=("/tmp/pk",), cgroup_parents=("/pktest-7f3a",))
    before = snapshot(scope)
    …
    assert not (leaks := diff(before, snapshot(scope))), leaks.report()

The fault tests use it around every fault. It reads /proc, /sys, directories and the firewall rules, and needs
root for resources of other users. Blocking.
"""

import contextlib
import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from pykubelet.linux.cgroups import Layout, Mode, detect
from pykubelet.linux.filesystems.mountinfo import at_or_below, mounts

_INODE = re.compile(r":\[\d+\]$")
_SHOWN = 20


class Kind(StrEnum):
    """Kind of a resource that can leak."""

    PROCESS = "process"
    MOUNT = "mount"
    NETNS = "network namespace"
    DEVICE = "network device"
    CGROUP = "cgroup"
    FILE = "file"
    ADDRESS = "address"
    FIREWALL = "firewall rule"
    LOOP = "loop device"
    DESCRIPTOR = "open descriptor of this process"


@dataclass(frozen=True, slots=True)
class Scope:
    """The resources to count. An empty field is not checked."""

    process_marks: tuple[str, ...] = ()
    """Texts that identify the processes to count: in the environment, the command line or the cgroup path."""
    mount_roots: tuple[str, ...] = ()
    """Absolute paths, free of links; mounts on and below them count."""
    netns_directories: tuple[str, ...] = ()
    """Directories of pinned namespaces, such as /run/netns."""
    devices: bool = False
    """Whether to count all network devices of this network namespace: veths and bridges."""
    bridge: str = ""
    """A bridge that is also a CNI network's name: its ports, and the firewall rules that name the network, count."""
    cgroup_parents: tuple[str, ...] = ()
    """Paths below the hierarchies' roots; the cgroups in them count, in every hierarchy."""
    directories: tuple[str, ...] = ()
    """Directories whose files count: logs, runtime state."""
    addresses: tuple[str, ...] = ()
    """Directories in which an IPAM plugin keeps one file per address."""
    loop_roots: tuple[str, ...] = ()
    """Directories; loop devices of files below them count."""
    descriptors: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The number of resources by kind and description."""

    found: Mapping[Kind, Counter[str]]


@dataclass(frozen=True, slots=True)
class Leaks:
    """The difference of two snapshots. True if something leaked; removed resources are reported but do not count."""

    leaked: Mapping[Kind, Counter[str]] = field(default_factory=dict)
    lost: Mapping[Kind, Counter[str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return any(self.leaked.values())

    def count(self, kind: Kind) -> int:
        """Number of leaked resources of a kind."""
        return self.leaked.get(kind, Counter()).total()

    def report(self) -> str:
        """Format the leaks as text, one line each."""
        lines = [*_lines("leaked", self.leaked), *_lines("gone", self.lost)]
        return "\n".join(lines) if lines else "no leaks"


def snapshot(scope: Scope) -> Snapshot:
    """Count all resources in the scope."""
    readers: dict[Kind, Iterable[str]] = {
        Kind.PROCESS: _processes(scope.process_marks),
        Kind.MOUNT: _mounts(scope.mount_roots),
        Kind.NETNS: _files(scope.netns_directories),
        Kind.DEVICE: [*(_devices() if scope.devices else ()), *_ports(scope.bridge)],
        Kind.CGROUP: _cgroups(scope.cgroup_parents),
        Kind.FILE: _files(scope.directories),
        Kind.ADDRESS: (path for path in _files(scope.addresses) if path.rpartition("/")[2][:1].isdecimal()),
        Kind.FIREWALL: _firewall_rules(scope.bridge),
        Kind.LOOP: _loop_devices(scope.loop_roots),
        Kind.DESCRIPTOR: _descriptors() if scope.descriptors else (),
    }
    return Snapshot({kind: Counter(reader) for kind, reader in readers.items()})


def diff(before: Snapshot, after: Snapshot) -> Leaks:
    """The resources that were added, and those that were removed."""
    return Leaks(
        leaked={kind: after.found[kind] - before.found[kind] for kind in Kind},
        lost={kind: before.found[kind] - after.found[kind] for kind in Kind},
    )


def _lines(verb: str, kinds: Mapping[Kind, Counter[str]]) -> Iterator[str]:
    for kind, found in kinds.items():
        names = sorted(found)
        for name in names[:_SHOWN]:
            times = f" ({found[name]} times)" if found[name] > 1 else ""
            yield f"{verb}: {kind} {name}{times}"
        if len(names) > _SHOWN:
            yield f"{verb}: … and {len(names) - _SHOWN} more of kind {kind}"


def _processes(marks: tuple[str, ...]) -> Iterator[str]:
    if not marks:
        return
    wanted = [mark.encode() for mark in marks]
    for directory in Path("/proc").iterdir():
        if not directory.name.isdecimal() or int(directory.name) == os.getpid():
            continue
        try:
            command = (directory / "cmdline").read_bytes()
            texts = (command, (directory / "cgroup").read_bytes(), _environment(directory))
            started = (directory / "stat").read_bytes().rsplit(b")", 1)[1].split()[19].decode()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if any(mark in text for mark in wanted for text in texts):
            shown = command.replace(b"\0", b" ").decode(errors="replace").strip() or "(zombie or kernel thread)"
            # The start time distinguishes two processes with the same PID.
            yield f"{directory.name} started at tick {started}: {shown[:200]}"


def _environment(directory: Path) -> bytes:
    try:
        return (directory / "environ").read_bytes()
    except PermissionError:
        return b""


def _mounts(roots: tuple[str, ...]) -> Iterator[str]:
    table = mounts() if roots else []
    for root in roots:
        for mount in at_or_below(table, root):
            yield f"{mount.path} ({mount.fs_type})"


def _devices() -> Iterator[str]:
    for device in Path("/sys/class/net").iterdir():
        yield device.name


def _ports(bridge: str) -> Iterator[str]:
    directory = Path("/sys/class/net", bridge, "brif")
    if bridge and directory.is_dir():
        yield from (f"{bridge}/{port.name}" for port in directory.iterdir())


def _firewall_rules(network: str) -> list[str]:
    """Firewall rules of the CNI plugins for the network's pods, found by the name in their comments."""
    if not network:
        return []
    command = ["iptables", "-w", "-t", "nat", "-S"]
    rules = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [row for row in rules.splitlines() if f'name: \\"{network}\\"' in row]


def _loop_devices(roots: tuple[str, ...]) -> Iterator[str]:
    for note in Path("/sys/block").glob("loop*/loop/backing_file") if roots else ():
        try:
            file = note.read_text().strip()
        except OSError:
            continue  # it has been detached
        if file.startswith(tuple(f"{root}/" for root in roots)):
            yield f"{note.parts[3]} of {file}"


def _cgroups(parents: tuple[str, ...]) -> Iterator[str]:
    for hierarchy in _hierarchies(detect()) if parents else ():
        for parent in parents:
            yield from (each.path for each in _entries(hierarchy / parent.strip("/")) if each.is_dir())


def _hierarchies(layout: Layout) -> set[Path]:
    roots = set(layout.controllers.values())
    if layout.mode is not Mode.NONE and layout.unified is not None:
        roots.add(layout.unified)
    return roots


def _files(directories: tuple[str, ...]) -> Iterator[str]:
    for top in directories:
        yield from (each.path for each in _entries(Path(top)) if not each.is_dir())


def _entries(top: Path) -> Iterator["os.DirEntry[str]"]:
    """Everything below a directory, as far as it has paths that the kernel takes; pods decide on the depth."""
    todo = [str(top)]
    while todo:
        with contextlib.suppress(OSError), os.scandir(todo.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    todo.append(entry.path)
                yield entry


def _descriptors() -> Iterator[str]:
    for entry in Path("/proc/self/fd").iterdir():
        try:
            target = str(entry.readlink())
        except FileNotFoundError:
            continue  # the descriptor of this listing
        # Each socket and pipe has its own inode number; only their count matters.
        yield _INODE.sub("", target)
