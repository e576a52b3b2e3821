"""Parsers for files of /proc/PID. Pure: from arbitrary bytes to values."""

from msgspec import Struct


class Stat(Struct, frozen=True):
    """One process, from proc_pid_stat(5). Its name is left out, since the process chooses it."""

    pid: int
    state: str
    """The state letter; Z and X: the process has ended."""
    parent: int
    group: int
    session: int
    user_ticks: int
    system_ticks: int
    started: int
    """Start time in clock ticks after the boot."""
    resident_pages: int
    minor_faults: int = 0
    major_faults: int = 0
    """Page faults for which the disk was read."""

    @property
    def ended(self) -> bool:
        """Whether the process has ended: it is a zombie, which only its parent can reap."""
        return self.state in ("Z", "X", "x")


class Membership(Struct, frozen=True):
    """One line of proc_pid_cgroup(5): the cgroup of a process in one hierarchy."""

    controllers: tuple[str, ...]
    """Controllers of the hierarchy: empty for version 2; ``name=…`` for a hierarchy without controllers."""
    path: str


class NetDevice(Struct, frozen=True):
    """Counters of a network device since its creation."""

    name: str
    rx_bytes: int = 0
    rx_packets: int = 0
    rx_errors: int = 0
    rx_dropped: int = 0
    tx_bytes: int = 0
    tx_packets: int = 0
    tx_errors: int = 0
    tx_dropped: int = 0


def parse_stat(pid: int, data: bytes) -> Stat | None:
    """Parse /proc/PID/stat; None if it describes no process."""
    # The name in parentheses may contain any byte, parentheses and blanks included.
    words = data.rpartition(b")")[2].split()
    if len(words) < 22:
        return None
    return Stat(
        pid,
        words[0].decode("ascii"),
        int(words[1]),
        int(words[2]),
        int(words[3]),
        int(words[11]),
        int(words[12]),
        int(words[19]),
        int(words[21]),
        int(words[7]),
        int(words[9]),
    )


def parse_status(data: bytes) -> dict[str, str]:
    """Parse /proc/PID/status: the fields by name."""
    lines = (line.partition(b":") for line in data.split(b"\n") if line)
    return {_text(name): _text(value.strip()) for name, _, value in lines}


def parse_cgroups(data: bytes) -> tuple[Membership, ...]:
    """Parse /proc/PID/cgroup; bytes of a path that are not UTF-8 become surrogates, as in other paths."""
    found = []
    for line in data.split(b"\n"):
        _, controllers, path = (*line.split(b":", 2), b"", b"")[:3]
        if path:
            names = tuple(name for name in _text(controllers).split(",") if name)
            found.append(Membership(names, path.decode(errors="surrogateescape")))
    return tuple(found)


def parse_net_dev(data: bytes) -> tuple[NetDevice, ...]:
    """Parse /proc/PID/net/dev (proc_pid_net(5)): all devices of a network namespace, the loopback device included."""
    found = []
    for line in data.split(b"\n")[2:]:
        name, _, rest = line.partition(b":")
        counters = [int(word) for word in rest.split()]
        if len(counters) >= 12:
            found.append(NetDevice(_text(name.strip()), *counters[:4], *counters[8:12]))
    return tuple(found)


def parse_limit(data: bytes, name: str) -> str | None:
    """Parse /proc/PID/limits: the soft limit of that name, a number or ``unlimited``."""
    for line in data.split(b"\n"):
        if line.startswith(name.encode()):
            return next(iter(_text(line[len(name) :]).split()), None)
    return None


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
