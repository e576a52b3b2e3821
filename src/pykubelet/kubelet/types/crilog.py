"""The log format of CRI: one record per line, ``TIMESTAMP STREAM TAGS CONTENT``.

Runtimes write it; the pod runtime reads its end for termination messages, the servers and the command line read it
for ``logs``. The first tag is ``P`` for a piece of a long line that continues in the stream's next record, or
``F`` for a whole line or the last piece (Kubernetes' CRI logging design). Further tags are ignored.
"""

import functools
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from msgspec import Struct

_TIME = rb"(?P<moment>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d+))?(?P<zone>Z|[+-]\d\d:\d\d)"
_ONLY_TIME = re.compile(_TIME)
_RECORD = re.compile(
    _TIME + rb" (?P<stream>stdout|stderr) (?P<tag>[^ :]*)[^ ]* (?P<content>.*)",
    re.DOTALL,
)
_NANO = 1_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class LogStream(StrEnum):
    """The stream that a container wrote a line to."""

    STDOUT = "stdout"
    STDERR = "stderr"


_STREAMS = {stream.encode(): stream for stream in LogStream}


class LogRecord(Struct, frozen=True):
    """One line of a log file."""

    timestamp: str
    """RFC 3339 with nine digits of the second, in the zone that the runtime wrote; UTC is ``Z``."""
    time_ns: int
    """The timestamp as Unix nanoseconds."""
    stream: LogStream
    partial: bool
    """Whether the container's line continues in the stream's next record."""
    content: bytes
    """The container's output, without the line end."""

    @property
    def output(self) -> bytes:
        """The container's output with its line end, which a partial record does not have."""
        return self.content if self.partial else self.content + b"\n"


def parse_time_ns(text: str) -> int | None:
    """Parse a time of RFC 3339 to Unix nanoseconds, without rounding; None if it does not have this format."""
    match = _ONLY_TIME.fullmatch(text.encode(errors="replace"))
    if match is None:
        return None
    moment, fraction, zone = match.groups()
    seconds = _seconds(moment + zone)
    return None if seconds is None else seconds * _NANO + int(_nanos(fraction))


def parse_record(line: bytes) -> LogRecord | None:
    """Parse a line of a log file, with or without its line end; None if it does not have this format."""
    match = _RECORD.fullmatch(line.removesuffix(b"\n"))
    if match is None:
        return None
    moment, fraction, zone, stream, tag, content = match.groups()
    nanos = _nanos(fraction)
    seconds = _seconds(moment + zone)
    if seconds is None:
        return None
    return LogRecord(
        timestamp=f"{moment.decode()}.{nanos}" + ("Z" if zone == b"+00:00" else zone.decode()),
        time_ns=seconds * _NANO + int(nanos),
        stream=_STREAMS[stream],
        partial=tag == b"P",
        content=content,
    )


def parse_records(data: bytes) -> Iterator[LogRecord]:
    """Yield the records in a piece of a log file, an unfinished last one included; malformed lines are skipped."""
    for line in data.split(b"\n"):
        record = parse_record(line)
        if record:
            yield record


def last_lines(data: bytes, count: int) -> bytes:
    """Return the last `count` lines of a piece of a file, plus a last line without a line end, which is not counted."""
    position = len(data)
    for _ in range(count + 1):
        position = data.rfind(b"\n", 0, position)
        if position < 0:
            return data
    return data[position + 1 :]


def _nanos(fraction: bytes | None) -> str:
    return (fraction or b"").decode()[:9].ljust(9, "0")


@functools.lru_cache(maxsize=64)  # consecutive lines mostly have the same second
def _seconds(moment: bytes) -> int | None:
    """Convert a time without fraction to Unix seconds; None if it does not exist, such as February 30."""
    try:
        return (datetime.fromisoformat(moment.decode()) - _EPOCH) // timedelta(seconds=1)
    except ValueError:
        return None
