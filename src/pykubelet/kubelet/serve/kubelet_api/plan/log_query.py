"""Parses ``/logs/?query=…`` (KEP-2258) and builds the journalctl command for it. Pure.

Limits and messages are those of the Go kubelet. BadQueryError: the query cannot be parsed. RefusedQueryError: it asks
for something that is not available.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from pykubelet.base.errors import Invalid

_MAX_TAIL: Final = 100_000
_MAX_NAME: Final = 256
_MAX_SERVICES: Final = 4
_SAFE_NAME: Final = re.compile(r"[a-zA-Z\-_.:0-9@]+")
"""Any other character in a service's name could have a meaning for journalctl."""
_INTERVAL: Final = "%Y-%m-%d %H:%M:%S"


class BadQueryError(Invalid):
    """The query cannot be parsed: 400."""


class RefusedQueryError(Invalid):
    """The query asks for something that is not available: 406."""


class NodeLogOptions(Struct, frozen=True):
    """The part of a log to return."""

    since: datetime | None = None
    until: datetime | None = None
    tail: int | None = None
    boot: int | None = None
    """0: this boot, -1: the one before, …"""
    pattern: str = ""


class LogQuery(Struct, frozen=True):
    """The logs of services, or one file below the log directory."""

    services: tuple[str, ...] = ()
    file: str = ""
    options: NodeLogOptions = NodeLogOptions()


def log_query(query: Mapping[str, Sequence[str]]) -> LogQuery | None:
    """Parse the query of a request; None if it has none. Raises BadQueryError, RefusedQueryError.

    The pattern is left to journalctl: compiling one of 40,000 characters can take Python minutes.
    """
    names = query.get("query", ())
    asked = [name for name in names if name.strip()]
    if names and not asked:
        raise BadQueryError("query: cannot be empty")
    files = [name for name in asked if "/" in name or "\\" in name]
    services = [name for name in asked if name not in files]
    first = {name: values[0] for name, values in query.items() if values and values[0]}
    options = NodeLogOptions(
        since=_time(first, "sinceTime"),
        until=_time(first, "untilTime"),
        tail=_number(first, "tailLines"),
        boot=_number(first, "boot"),
        pattern=first.get("pattern", ""),
    )
    if not asked and options == NodeLogOptions():
        return None
    _check(files, services, options)
    return LogQuery(tuple(services), files[0].replace("\\", "/") if files else "", options)


def journal_command(query: LogQuery) -> list[str]:
    """Return the journalctl command for the services of a query."""
    options = query.options
    command = ["journalctl", "--utc", "--no-pager", "--output=short-precise"]
    for name, moment in (("since", options.since), ("until", options.until)):
        if moment is not None:
            command.append(f"--{name}={moment.strftime(_INTERVAL)}")
    if options.tail is not None:
        command += ["--pager-end", f"--lines={options.tail}"]
    command += [f"--unit={service}" for service in query.services]
    if options.pattern:
        command += [f"--grep={options.pattern}", "--case-sensitive=false"]
    if options.boot is not None:
        command.append(f"--boot={options.boot}")
    return command


def file_names(service: str) -> tuple[str, ...]:
    """Return where a service that does not log to the journal may have its file, below the log directory."""
    return service, f"{service}.log", f"{service}/{service}.log"


def _check(files: Sequence[str], services: Sequence[str], options: NodeLogOptions) -> None:
    for service in services:
        if len(service) > _MAX_NAME:
            raise RefusedQueryError(f"query: {service[:20]}…: length must be less than {_MAX_NAME}")
        if not _SAFE_NAME.fullmatch(service):
            raise RefusedQueryError(f"query: {service!r}: input contains unsupported characters")
    wrong = (
        (len(services) > _MAX_SERVICES, f"query: must have at most {_MAX_SERVICES} items"),
        (bool(files and services), "query: cannot specify a file and service"),
        (len(files) > 1, "query: cannot specify more than one file"),
        (bool(files) and options != NodeLogOptions(), "query: cannot specify file with options"),
        (not files and not services, "query: options need a service to be named"),
        (bool(options.since and options.until and options.since > options.until), "untilTime: must be after sinceTime"),
        ((options.boot or 0) > 0, "boot: must be less than 1"),
        (not 0 <= (options.tail or 0) <= _MAX_TAIL, f"tailLines: must be between 0 and {_MAX_TAIL}, inclusive"),
    )
    for is_so, text in wrong:
        if is_so:
            raise RefusedQueryError(text)


def _time(query: Mapping[str, str], name: str) -> datetime | None:
    text = query.get(name)
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadQueryError(f"{name}: {text!r}: invalid time format, must be RFC 3339") from error
    if moment.tzinfo is None:
        raise BadQueryError(f"{name}: {text!r}: invalid time format, the zone is missing")
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise BadQueryError(f"{name}: {text!r}: not a time between the years 1 and 9999 in UTC") from error


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError as error:
        raise BadQueryError(f"{name}: {text!r} is not a whole number") from error
