"""Parses query parameters of requests; names and rules are those of the Kubernetes API. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from pykubelet.base.errors import Invalid
from pykubelet.base.http.port_number import parse_port
from pykubelet.base.units import Seconds
from pykubelet.kubelet.serve.common.server_types import LogOptions, LogStreams
from pykubelet.kubelet.serve.streams.stream_types import StreamOptions
from pykubelet.kubelet.types.crilog import parse_time_ns

_TRUE: Final = frozenset({"", "1", "t", "T", "true", "True", "TRUE"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "False", "FALSE"})
_MAX_SECONDS: Final = 10 * 365 * 86400
_MAX_PORTS: Final = 64


class InvalidParameter(Invalid):
    """A query parameter has a wrong value; clients are told its name as that of the field."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class InvalidOption(InvalidParameter):
    """An option can be parsed, but its value is not allowed: the status 422 instead of 400."""


def log_options(query: Mapping[str, str], now: Seconds) -> LogOptions:
    """Parse the options of a log request. InvalidParameter names the parameter that is wrong."""
    since_ns = _since(query, now)
    streams = query.get("stream", LogStreams.ALL)
    if streams not in tuple(LogStreams):
        raise InvalidOption("stream", f"stream: unknown stream {streams!r}; use one of {', '.join(LogStreams)}")
    tail = integer(query, "tailLines")
    limit = integer(query, "limitBytes", lowest=1)
    if tail is not None and streams != LogStreams.ALL:
        problem = "cannot be combined with stream: lines are counted over both streams"
        raise InvalidOption("tailLines", f"tailLines: {problem}")
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
    """Parse the options of an exec or attach request. Invalid names the parameter that is wrong."""
    options = StreamOptions(
        container=query.get("container", ""),
        command=tuple(command),
        stdin=boolean(query, "stdin"),
        stdout=boolean(query, "stdout"),
        stderr=boolean(query, "stderr"),
        tty=boolean(query, "tty"),
    )
    if not attach and not options.command:
        raise Invalid("command: missing; pass the command as one parameter for each word")
    if not (options.stdin or options.stdout or options.stderr):
        raise Invalid("at least one of stdin, stdout and stderr has to be true")
    if options.tty and options.stderr:
        raise Invalid("stderr: cannot be combined with tty: a terminal has no separate stderr; leave one out")
    return options


def forwarded_ports(values: Sequence[str]) -> tuple[int, ...]:
    """Parse the ports of a port-forward over WebSocket (over SPDY there are none). Invalid: not port numbers."""
    words = [word for value in values for word in value.split(",")]
    ports = tuple(port for word in words[:_MAX_PORTS] if (port := parse_port(word)) is not None)
    if len(ports) != len(words):
        raise Invalid(f"ports: {','.join(values)[:80]!r} are not port numbers")
    return ports


def boolean(query: Mapping[str, str], name: str) -> bool:
    """Parse a truth value; False if it is missing. InvalidParameter: neither true nor false."""
    value = query.get(name)
    if value is None or value in _FALSE:
        return False
    if value in _TRUE:
        return True
    raise InvalidParameter(name, f"{name}: {value!r} is neither true nor false")


def integer(query: Mapping[str, str], name: str, lowest: int = 0) -> int | None:
    """Parse a whole number; None if it is missing. InvalidParameter: no number, or less than ``lowest``."""
    value = query.get(name)
    if value is None:
        return None
    digits, wrong = value.removeprefix("-"), f"{name}: {value!r} is not a whole number of at least {lowest}"
    if not digits.isascii() or not digits.isdecimal() or len(digits) > 18:
        raise InvalidParameter(name, wrong)
    if int(value) < lowest:
        raise InvalidOption(name, wrong)
    return int(value)


def _since(query: Mapping[str, str], now: Seconds) -> int | None:
    seconds = integer(query, "sinceSeconds", lowest=1)
    moment = query.get("sinceTime")
    if seconds is not None and moment is not None:
        raise InvalidOption("sinceTime", "sinceTime: cannot be combined with sinceSeconds; leave one out")
    if seconds is not None:
        return round((now - min(seconds, _MAX_SECONDS)) * 1e9)
    if moment is None:
        return None
    since_ns = parse_time_ns(moment)
    if since_ns is None:
        raise InvalidParameter("sinceTime", f"sinceTime: {moment!r} is not a time such as 2026-01-31T12:00:00Z")
    return since_ns
