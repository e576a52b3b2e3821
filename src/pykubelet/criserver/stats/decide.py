"""Parsing of network counters and arithmetic of CPU rates. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Interface:
    """Counters of a network device since its creation."""

    name: str
    rx_bytes: int
    rx_errors: int
    tx_bytes: int
    tx_errors: int
    rx_packets: int = 0
    rx_dropped: int = 0
    tx_packets: int = 0
    tx_dropped: int = 0


def parse_net_dev(text: str) -> tuple[Interface, ...]:
    """Parse /proc/net/dev (proc_pid_net(5)), without the loopback device."""
    found = []
    for line in text.split("\n")[2:]:
        name, _, rest = line.partition(":")
        numbers = [int(field) for field in rest.split()]
        if name.strip() != "lo" and len(numbers) >= 12:
            received, sent = numbers[:4], numbers[8:12]
            totals = (received[0], received[2], sent[0], sent[2])
            found.append(Interface(name.strip(), *totals, received[1], received[3], sent[1], sent[3]))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Sample:
    """The CPU time used up to a point in time, both in nanoseconds."""

    at: int
    used: int


def rate(before: Sample | None, now: Sample) -> int | None:
    """Nanoseconds of CPU time used per second between two samples; None if it cannot be computed."""
    if before is None or now.at <= before.at or now.used < before.used:
        return None
    return (now.used - before.used) * 1_000_000_000 // (now.at - before.at)
