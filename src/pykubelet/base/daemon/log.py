"""Structured logging: a constant message plus fields, as text for people or as JSON for machines.

Modules call `logging.getLogger(__name__).info("constant message", extra={"pod": ...})`; the text formatter prints the
values of `extra` as `key=value`. Line breaks in values are escaped, so one record is one line, and a hostile name
cannot forge a record.
"""

import json
import logging
import sys
from typing import Final, Literal, TextIO

from pykubelet.base.clock import SystemClock, utc
from pykubelet.base.daemon.log_stream import LogStream, stream_for
from pykubelet.base.text import printable, printable_lines
from pykubelet.base.units import KIB

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
_PLAIN_FORBIDDEN = frozenset(' "=')
_MAX_TEXT: Final = 32 * KIB
"""Maximum characters of a message, a value or a trace: paths, commands and requests of others may be in them."""

Format = Literal["text", "json"]


def setup(level: str | int, format: Format = "text", stream: TextIO | None = None) -> None:
    """Make this the only log output of the process (default stderr). A further call replaces the former set-up.

    A reader of stderr that hangs, or is too slow, costs log lines; see ``log_stream.py``.
    """
    handler = logging.StreamHandler(stream or _stderr())
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
        if isinstance(old, logging.StreamHandler) and isinstance(old.stream, LogStream):
            old.stream.close()
    root.addHandler(handler)
    root.setLevel(level.upper() if isinstance(level, str) else level)
    logging.captureWarnings(True)


def _stderr() -> LogStream | TextIO:
    try:
        fd = sys.stderr.fileno()
    except (OSError, ValueError, AttributeError):  # replaced by an object without a file, as tests do
        return sys.stderr
    return stream_for(fd, SystemClock()) or sys.stderr


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """The fields that the caller passed as `extra`."""
    return {key: value for key, value in record.__dict__.items() if key not in _STANDARD}


class TextFormatter(logging.Formatter):
    """One line per record: `2026-01-31T12:00:00.123Z WARNING kubelet.control.sync: message key=value`."""

    def format(self, record: logging.LogRecord) -> str:
        stamp = _stamp(record)
        name = record.name.removeprefix("pykubelet.")
        parts = [f"{stamp} {record.levelname} {name}: {_one_line(_bounded(record.getMessage()))}"]
        parts += [f"{key}={_value(value)}" for key, value in fields_of(record).items()]
        line = " ".join(parts)
        trace = _trace(self, record)
        return f"{line}\n{printable_lines(trace)}" if trace else line


class JsonFormatter(logging.Formatter):
    """One JSON object per line: ts, level, logger, msg, the fields, and `trace` for exceptions."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "ts": _stamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": _bounded(record.getMessage()),
        }
        for key, value in fields_of(record).items():
            entry[key if key not in entry else f"field_{key}"] = _bounded_value(value)
        trace = _trace(self, record)
        if trace:
            entry["trace"] = trace
        text = json.dumps(entry, default=str, ensure_ascii=False)
        return text if _plain(text) else json.dumps(entry, default=str)


def _stamp(record: logging.LogRecord) -> str:
    return utc(record.created).strftime("%Y-%m-%dT%H:%M:%S.") + f"{int(record.msecs):03d}Z"


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    parts = []
    if record.exc_info:
        parts.append(formatter.formatException(record.exc_info))
    if record.stack_info:
        parts.append(formatter.formatStack(record.stack_info))
    text = "\n".join(parts)
    more, half = len(text) - _MAX_TEXT, _MAX_TEXT // 2  # the error itself is at the end, behind its causes
    return text if more <= 0 else f"{text[:half]}… ({more} more characters) …{text[-half:]}"


def _bounded_value(value: object) -> object:
    """Return the value itself, or the beginning of its text if that is too long."""
    text = str(value)
    return value if len(text) <= _MAX_TEXT else _bounded(text)


def _bounded(text: str) -> str:
    more = len(text) - _MAX_TEXT
    return text if more <= 0 else f"{text[:_MAX_TEXT]}… ({more} more characters)"


def _one_line(text: str) -> str:
    return text if _plain(text) else printable("".join(c if c.isprintable() else repr(c)[1:-1] for c in text))


def _plain(text: str) -> bool:
    return (text.isascii() and text.isprintable()) or (text.isprintable() and printable(text) == text)


def _value(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower() if value is not None else "null"
    text = _bounded(str(value))
    if text and _plain(text) and not _PLAIN_FORBIDDEN.intersection(text):
        return text
    return json.dumps(text, ensure_ascii=not _plain(text))
