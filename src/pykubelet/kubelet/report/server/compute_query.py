"""From the query of a request to options. Pure; names and rules are those of the Kubernetes API."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from pykubelet.base.errors import Invalid
from pykubelet.base.units import Seconds
from pykubelet.kubelet.report.server.types import LogOptions, LogStreams, StreamOptions

_TRUE: Final = frozenset({"", "1", "t", "T", "true", "True", "TRUE"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "False", "FALSE"})
_MAX_SECONDS: Final = 10 * 365 * 86400
_MAX_PORTS: Final = 64


def log_options(query: Mapping[str, str], now: Seconds) -> LogOptions:
    """Options of a log request. Invalid names the parameter that is wrong."""
    since_ns = _since(query, now)
    streams = query.get("stream", LogStreams.ALL)
    if streams not in tuple(LogStreams):
        raise Invalid(f"stream: {streams!r} is none of {', '.join(LogStreams)}")
    tail = integer(query, "tailLines")
    limit = integer(query, "limitBytes", lowest=1)
    if tail is not None and streams != LogStreams.ALL:
        raise Invalid("tailLines: lines are counted over both streams, so it cannot be used with one stream only")
    return LogOptions(
        container=query.get("container", ""),
        follow=boolean(query, "follow"),
        previous=boolean(query, "previous"),
        timestamps=boolean(query, "timestamps"),
        tail_lines=tail,
        since_ns=since_ns,
        limit_bytes=limit,
        streams=LogStreams(streams),
    )


def stream_options(query: Mapping[str, str], command: Sequence[str], *, attach: bool) -> StreamOptions:
    """Options of an exec or attach request. Invalid names what is wrong."""
    options = StreamOptions(
        container=query.get("container", ""),
        command=tuple(command),
        stdin=boolean(query, "stdin"),
        stdout=boolean(query, "stdout"),
        stderr=boolean(query, "stderr"),
        tty=boolean(query, "tty"),
    )
    if not attach and not options.command:
        raise Invalid("command: name the command to run, one parameter for each word")
    if not (options.stdin or options.stdout or options.stderr):
        raise Invalid("at least one of stdin, stdout and stderr has to be true")
    if options.tty and options.stderr:
        raise Invalid("stderr: with a terminal there is no separate stderr; leave stderr or tty out")
    return options


def forwarded_ports(values: Sequence[str]) -> tuple[int, ...]:
    """Ports of a port-forward over WebSocket; SPDY names none. Invalid: not port numbers."""
    words = [word for value in values for word in value.split(",")]
    if len(words) > _MAX_PORTS or not all(w.isascii() and w.isdecimal() and 0 < int(w[:6]) < 65536 for w in words):
        raise Invalid(f"ports: {','.join(values)[:80]!r} are not port numbers")
    return tuple(int(word) for word in words)


def boolean(query: Mapping[str, str], name: str) -> bool:
    """A truth value; false if it is not given. Invalid: none of the words for it."""
    value = query.get(name)
    if value is None or value in _FALSE:
        return False
    if value in _TRUE:
        return True
    raise Invalid(f"{name}: {value!r} is neither true nor false")


def integer(query: Mapping[str, str], name: str, lowest: int = 0) -> int | None:
    """A whole number; None if it is not given. Invalid: none, or less than ``lowest``."""
    value = query.get(name)
    if value is None:
        return None
    if not value.isascii() or not value.isdecimal() or len(value) > 18 or int(value) < lowest:
        raise Invalid(f"{name}: {value!r} is not a whole number of at least {lowest}")
    return int(value)


def _since(query: Mapping[str, str], now: Seconds) -> int | None:
    seconds = integer(query, "sinceSeconds", lowest=1)
    moment = query.get("sinceTime")
    if seconds is not None and moment is not None:
        raise Invalid("sinceTime: give either sinceTime or sinceSeconds")
    if seconds is not None:
        return round((now - min(seconds, _MAX_SECONDS)) * 1e9)
    if moment is None:
        return None
    try:
        parsed = datetime.fromisoformat(moment)
        if parsed.tzinfo is None:
            raise ValueError("no time zone")
        return round(parsed.timestamp() * 1e9)
    except (ValueError, OverflowError) as error:
        raise Invalid(f"sinceTime: {moment!r} is not a time such as 2026-01-31T12:00:00Z") from error
