"""The history file: one record per line, appended; rewritten when most of its lines have been replaced.

Each line is the CRC-32 of a JSON text in eight hex digits, a space, the text, and a newline. A line that a killed
writer or a loss of power left unfinished at the end is cut off; a bad line before good ones, an unknown version or a
file of another type is damage: the file is set aside, its good records go on in a new one. A commit survives the death
of the process; only a loss of power may lose the last seconds.

SQLite would do the same, with two more MiB of memory in a process that uses it for nothing else.
"""

import errno
import os
import secrets
import stat
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pykubelet.base.errors import PykubeletError
from pykubelet.base.files.atomic import remove_temporary_files
from pykubelet.base.files.retried_reads import read_again
from pykubelet.base.files.safe_path import read_regular
from pykubelet.base.files.state_files import set_aside_damaged
from pykubelet.base.units import MIB, Seconds
from pykubelet.kubelet.report.history.history_types import (
    VERSION,
    EventRecord,
    Header,
    HistoryLimits,
    LoadedHistory,
    Record,
)
from pykubelet.kubelet.report.history.plan.replay import Replay
from pykubelet.kubelet.report.shared_values import SharedValues
from pykubelet.models import codec
from pykubelet.models.core_v1 import Event

_MAX_FILE: Final = 64 * MIB
_DAMAGED: Final = frozenset({errno.EINVAL, errno.EFBIG, errno.ELOOP})
_SLACK: Final = 4
"""The file is rewritten when it has this many times as many lines as records that count."""
_FEW_LINES: Final = 4096
"""Shorter files are not rewritten."""
_decoder: Final = msgspec.json.Decoder(Record)
_OF_EVENT: Final = (
    *("api_version", "kind", "type", "reason", "message", "first_timestamp", "last_timestamp"),
    *("source", "reporting_component", "reporting_instance"),
)
_OF_META: Final = ("namespace", "creation_timestamp")
_OF_REFERENCE: Final = ("api_version", "kind", "namespace", "name", "uid", "field_path")
"""Fields of events, their metadata and references that many events have in common."""
_NONE: Final[dict[str, str]] = {}
_Place = tuple[int, int]
"""Begin and end of a line."""


class _Content(Struct, frozen=True):
    """A file's content: its records as far as they are good."""

    data: bytes
    replay: Replay[_Place]
    lines: int
    good: int
    """Length of the part that ends with the last good line."""
    damage: str


class HistoryFile:
    """Reads and writes the file. All methods block, raise OSError, and must not be called at the same time."""

    def __init__(self, path: Path, limits: HistoryLimits) -> None:
        self._path = path
        self._limits = limits
        self._lines = 0
        self._size = 0
        self._counting = 0

    def load(self, now: Seconds, newest_events: int) -> LoadedHistory:
        """Read the file; of the events only the newest ones. ``now``: Unix time. A damaged file is set aside."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        remove_temporary_files(self._path.parent)
        damage = self._clear_obstacle()
        content = self._read(now, self._limits.events)
        if content.damage:
            damage = self._set_aside(content.damage)
        if content.data:
            self._remember(content)
            if damage or self._is_due():
                self._rewrite(content)
            elif content.good < len(content.data):
                os.truncate(self._path, content.good)
        replay = content.replay
        places = list(replay.events.values())
        return LoadedHistory(
            events=tuple(_events(content.data, places[-newest_events:])),
            more_events=len(places) > newest_events,
            started=dict(replay.started),
            timelines={uid: record.body for uid, record in replay.timelines.items()},
            ends={uid: tuple(known.values()) for uid, known in replay.ends.items()},
            damage=damage,
        )

    def older_events(self, now: Seconds, known: frozenset[str]) -> list[Event]:
        """Return the events whose keys are not among the known ones, the oldest first."""
        content = self._read(now, self._limits.events)
        return list(_events(content.data, [place for key, place in content.replay.events.items() if key not in known]))

    def append(self, records: Sequence[Record], now: Seconds) -> str:
        """Append records; return why the file was set aside, or an empty string. OSError: nothing was written."""
        lines = list(self._storable(records))
        damage = self._clear_obstacle()
        self._write(b"".join(lines), len(lines))
        if self._is_due():
            content = self._read(now, self._limits.events)
            if content.damage:
                damage = self._set_aside(content.damage)
            self._rewrite(content)
        return damage

    def _storable(self, records: Iterable[Record]) -> Iterator[bytes]:
        """Yield the lines of records, without those that are too long or not UTF-8 (from the name of a file)."""
        for record in records:
            with suppress(UnicodeEncodeError):
                line = _line(record)
                if len(line) <= self._limits.record:
                    yield line

    def _clear_obstacle(self) -> str:
        """Set aside what is not a regular file; return a message if there was something."""
        try:
            found = self._path.lstat()
        except FileNotFoundError:
            return ""
        return "" if stat.S_ISREG(found.st_mode) else self._set_aside("it is not a regular file")

    def _write(self, data: bytes, lines: int) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(self._path, flags, 0o600)
        try:
            before = os.fstat(fd).st_size
            if before == 0:
                data = _line(Header(VERSION)) + data
                lines += 1
            try:
                _write_all(fd, data)
            except OSError:
                os.ftruncate(fd, before)
                raise
        finally:
            os.close(fd)
        self._size = before + len(data)
        self._lines += lines

    def _read(self, now: Seconds, events_at_most: int) -> _Content:
        replay = Replay[_Place](self._limits, now - self._limits.keep_for, events_at_most)
        try:
            data = read_again(partial(read_regular, self._path, _MAX_FILE))
        except FileNotFoundError:
            return _Content(b"", replay, 0, 0, "")
        except OSError as error:
            if error.errno not in _DAMAGED:
                raise
            return _Content(b"", replay, 0, 0, error.strerror or str(error))
        return _scan(data, replay)

    def _set_aside(self, why: str) -> str:
        kept_as = set_aside_damaged(self._path, why)
        self._size = self._lines = self._counting = 0
        return f"{self._path} is damaged, it is kept as {kept_as}: {why}"

    def _remember(self, content: _Content) -> None:
        replay = content.replay
        self._lines, self._size = content.lines, content.good
        self._counting = len(replay.events) + len(replay.records())

    def _is_due(self) -> bool:
        few = self._lines <= max(_FEW_LINES, _SLACK * self._counting, self._limits.events + self._limits.events // 4)
        return not few or self._size > self._limits.file

    def _rewrite(self, content: _Content) -> None:
        """Replace the file by one with the records that count; while it is too large, without older events."""
        replay, data = content.replay, content.data
        others = [_line(record) for record in replay.records()]
        places = list(replay.events.values())
        while places and sum(end - begin for begin, end in places) > self._limits.file // 2:
            places = places[(len(places) + 1) // 2 :]
        lines = [_line(Header(VERSION)), *others, *(data[begin:end] for begin, end in places)]
        self._replace(lines)
        self._counting = self._lines = len(lines)
        self._size = sum(map(len, lines))

    def _replace(self, lines: Sequence[bytes]) -> None:
        temporary = self._path.parent / f".{self._path.name}.{secrets.token_hex(6)}.tmp"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(fd, "wb") as file:
                file.writelines(lines)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise


def _line(record: Record) -> bytes:
    text = codec.encode(record)
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _scan(data: bytes, replay: Replay[_Place]) -> _Content:
    """Apply the good lines. Bad lines at the end are an unfinished write, others are damage."""
    lines = good = bad_at = 0
    damage = ""
    for number, (begin, end) in enumerate(_places(data), 1):
        record = _record(data[begin:end])
        if number == 1 and not (isinstance(record, Header) and record.version == VERSION):
            version = record.version if isinstance(record, Header) else None
            damage = f"of version {version}; this one reads {VERSION}" if version else "it does not begin with a header"
        if record is None:
            bad_at = bad_at or number
            continue
        if bad_at and not damage:
            damage = f"line {bad_at} cannot be read"
        replay.apply(record, (begin, end))
        lines, good = lines + 1, end
    return _Content(data, replay, lines, good, damage)


def _places(data: bytes) -> Iterator[_Place]:
    begin = 0
    while begin < len(data):
        end = data.find(b"\n", begin) + 1 or len(data)
        yield begin, end
        begin = end


def _record(line: bytes) -> Record | None:
    """Return the record of a line; None: the line is incomplete or damaged."""
    text = line[9:-1]
    if not line.endswith(b"\n") or line[:9] != b"%08x " % zlib.crc32(text):
        return None
    try:
        record: Record = _decoder.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return record


def _events(data: bytes, places: Sequence[_Place]) -> Iterator[Event]:
    shared = SharedValues()
    for begin, end in places:
        record = _record(data[begin:end])
        if isinstance(record, EventRecord):
            with suppress(PykubeletError):
                yield _sharing(codec.decode(bytes(record.body), Event), shared)


def _sharing(event: Event, shared: SharedValues) -> Event:
    """Return the event with the objects of earlier ones for what it has in common with them: 0.7 instead of 2 KiB."""

    def parts(whole: Struct, names: Iterable[str]) -> dict[str, object]:
        return {name: shared.of(getattr(whole, name)) for name in names}

    meta, involved = event.metadata, event.involved_object
    return replace(
        event,
        metadata=replace(
            meta,
            annotations=meta.annotations or _NONE,
            labels=meta.labels or _NONE,
            **parts(meta, _OF_META),
        ),
        involved_object=shared.of(replace(involved, **parts(involved, _OF_REFERENCE))),
        **parts(event, _OF_EVENT),
    )
