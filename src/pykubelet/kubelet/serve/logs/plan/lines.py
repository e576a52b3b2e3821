"""Formats log records for a client: joins partial lines, filters, adds timestamps, applies the byte limit. Pure.

One :class:`LineWriter` per client is fed with records as they are read.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from pykubelet.kubelet.serve.common.server_types import LogOptions, LogStreams
from pykubelet.kubelet.types.crilog import LogRecord, LogStream

_MAX_HELD_BYTES: Final = 1 << 20
_SHOWN: Final = {
    LogStreams.ALL: frozenset(LogStream),
    LogStreams.STDOUT: frozenset({LogStream.STDOUT}),
    LogStreams.STDERR: frozenset({LogStream.STDERR}),
}


class LineWriter:
    """Turns records into bytes to send. A line is held until its last part arrives, so streams do not mix."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._shown = _SHOWN[options.streams]
        self._unfinished: dict[LogStream, LogRecord] = {}
        self._left = options.limit_bytes

    @property
    def full(self) -> bool:
        """Whether the byte limit is reached: nothing more will be returned."""
        return self._left == 0

    def feed(self, records: Iterable[LogRecord]) -> bytes:
        """Return the bytes to send after these records."""
        return self._limited(b"".join(self._lines(records)))

    def flush(self) -> bytes:
        """Return the unfinished lines, at the end of the log."""
        unfinished = sorted(self._unfinished.values(), key=lambda record: record.time_ns)
        self._unfinished.clear()
        return self._limited(b"".join(self._text(record) for record in unfinished))

    def _lines(self, records: Iterable[LogRecord]) -> Iterator[bytes]:
        since = self._options.since_ns
        for record in records:
            if record.stream not in self._shown or (since is not None and record.time_ns < since):
                continue
            before = self._unfinished.pop(record.stream, None)
            line = record
            if before is not None:
                line = replace(before, content=before.content + record.content, partial=record.partial)
            if line.partial and len(line.content) < _MAX_HELD_BYTES:
                self._unfinished[record.stream] = line
            else:
                yield self._text(line)

    def _text(self, line: LogRecord) -> bytes:
        return f"{line.timestamp} ".encode() + line.output if self._options.timestamps else line.output

    def _limited(self, data: bytes) -> bytes:
        if self._left is None:
            return data
        data = data[: self._left]
        self._left -= len(data)
        return data
