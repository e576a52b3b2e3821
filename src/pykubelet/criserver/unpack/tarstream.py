"""A tar reader, entry by entry: POSIX ustar and pax, GNU's long names and big numbers, all formats of sparse files.

It replaces ``tarfile``, which reads headers of any size into memory, keeps every entry, and takes three times as long.
Source of the format: POSIX.1-2017 pax, "ustar Interchange Format"; GNU tar manual, "Basic Tar Format".
"""

import struct
import zlib
from collections.abc import Callable, Iterator
from enum import Enum

from msgspec import Struct, field

from pykubelet.criserver.unpack.limits import BadLayer, Limits
from pykubelet.criserver.unpack.plan.sparse import Segment, Segments, checked, from_header, from_pax, from_text
from pykubelet.criserver.unpack.stream import ByteStream

BLOCK = 512
_HEADER = struct.Struct("100s24s12s12s8x1x100s8s32x32x8s8s155s12x")
_NUL_BLOCK = bytes(BLOCK)
_XATTR = "SCHILY.xattr."
_NANO = 1_000_000_000
_MAX_SECONDS = 1 << 40
_ADLER = 65521
_MAX_CACHED = 10_000
_MAX_RECORDS = 1000
"""Limit of pax records of one entry."""
_KNOWN = {"path", "linkpath", "size", "uid", "gid", "mtime"}
_KNOWN_KINDS = (_XATTR, "GNU.sparse.")
_SPARSE_PARTS = (b"GNU.sparse.offset", b"GNU.sparse.numbytes")
_OF_ALL = ("uid", "gid", "mtime")
"""Records that a global header may contain; names, sizes and attributes belong to one entry."""


class EntryKind(Enum):
    """The type of the file that an entry creates."""

    FILE = "0"
    HARDLINK = "1"
    SYMLINK = "2"
    CHAR = "3"
    BLOCK = "4"
    DIRECTORY = "5"
    FIFO = "6"


_KINDS = {kind.value.encode(): kind for kind in EntryKind} | {
    b"\0": EntryKind.FILE,
    b"7": EntryKind.FILE,
    b"S": EntryKind.FILE,
}
_META = {b"x", b"g", b"L", b"K"}
_DEVICES = (EntryKind.CHAR, EntryKind.BLOCK)


class Entry(Struct):
    """The header of one entry; names are text with undecodable bytes as surrogates."""

    name: str
    kind: EntryKind
    size: int
    mode: int
    uid: int
    gid: int
    mtime_ns: int
    link: str
    device: tuple[int, int]
    xattrs: dict[str, bytes] = field(default_factory=dict)
    segments: Segments | None = None
    """For a sparse file: the segments whose content ``data`` yields, one after the other; the rest are holes."""


class TarReader:
    """Iterate to get the entries; between two of them ``data`` yields the content of the last one."""

    def __init__(self, stream: ByteStream, limits: Limits, *, on_entry: Callable[[], None] = lambda: None) -> None:
        """``on_entry`` is called before each entry."""
        self._on_entry = on_entry
        self._stream = stream
        self._limits = limits
        self._left = 0
        self._padding = 0
        self._global: dict[str, bytes] = {}
        self._extended = self._extended_all = 0
        """Bytes of extended headers for the next entry, and for all following entries."""
        self._owners: dict[bytes, tuple[int, int, int]] = {}
        """Cache of mode, uid and gid by the header's bytes: most entries share them."""

    def __iter__(self) -> Iterator[Entry]:
        extra: dict[str, bytes] = {}
        count = 0
        while (block := self._next_block()) is not None:
            count += 1
            if count > self._limits.max_entries:
                raise BadLayer(f"the layer has more than {self._limits.max_entries} entries")
            flag = block[156:157]
            if flag in _META:
                self._extend(extra, flag, block)
                continue
            entry = self._entry(block, flag, self._global | extra if self._global else extra)
            extra, self._extended = {}, 0
            if entry is not None:
                self._on_entry()
                yield entry
        if extra:
            raise BadLayer("the tar stream ends after an extended header")

    def data(self) -> Iterator[memoryview]:
        """Yield the content of the current entry, in pieces that are valid until the next one is requested."""
        while self._left:
            piece = self._stream.some(self._left)
            if not piece:
                raise BadLayer("the tar stream ends inside a file")
            self._left -= len(piece)
            yield piece

    def _next_block(self) -> bytes | None:
        block = self._stream.skip_and_take(self._left + self._padding, BLOCK)
        if block is None:
            raise BadLayer("the tar stream ends inside a file")
        self._left = self._padding = 0
        if not block or block == _NUL_BLOCK:
            return None
        if len(block) < BLOCK:
            raise BadLayer("the tar stream ends inside a header")
        _check_sum(block)
        return block

    def _extend(self, extra: dict[str, bytes], flag: bytes, block: bytes) -> None:
        size = _number(block[124:136], "size")
        if flag == b"g":
            self._extended_all += size
        else:
            self._extended += size
        if size < 0 or max(self._extended, self._extended_all) > self._limits.max_header:
            raise BadLayer(f"an extended header of {size} bytes; at most {self._limits.max_header} are accepted in all")
        self._open_data(size)
        content = b"".join(map(bytes, self.data()))
        if flag == b"g":
            self._global |= {key: value for key, value in _pax(content).items() if key in _OF_ALL}
        elif flag == b"x":
            extra |= _pax(content)
        else:
            extra["path" if flag == b"L" else "linkpath"] = content.split(b"\0", 1)[0]

    def _open_data(self, size: int) -> None:
        self._left = size
        self._padding = -size % BLOCK

    def _entry(self, block: bytes, flag: bytes, pax: dict[str, bytes]) -> Entry | None:
        name, owner, size_, mtime, link, magic, major, minor, prefix = _HEADER.unpack(block)
        size = decimal(pax["size"]) if "size" in pax else _number(size_, "size")
        if size < 0 or size > self._limits.max_bytes:
            raise BadLayer(f"an entry of {size} bytes")
        kind = _KINDS.get(flag)
        if kind is None:
            if flag == b"V":
                self._open_data(size)
                return None
            raise BadLayer(f"{_text(name)!r}: entries of type {flag!r} are not supported in layers")
        path = pax.get("GNU.sparse.name") or pax.get("path") or _joined(name, prefix, magic)
        if kind is EntryKind.FILE and path.endswith(b"/"):
            kind = EntryKind.DIRECTORY
        if self._limits.only_files and kind not in (EntryKind.FILE, EntryKind.DIRECTORY):
            raise BadLayer(f"{_text(path[:200])!r} is neither a file nor a directory")
        # Only files have content. Some writers give a hard link the size of its target, and no data.
        self._open_data(size if kind is EntryKind.FILE else 0)
        target = pax.get("linkpath") or link.split(b"\0", 1)[0]
        for text in (path, target):
            if len(text) > self._limits.max_name or b"\0" in text:
                raise BadLayer(f"a name of {len(text)} bytes, or with a NUL in it: {_text(text[:80])!r}…")
        segments = None
        if kind is EntryKind.FILE and (flag == b"S" or "GNU.sparse.size" in pax or "GNU.sparse.major" in pax):
            size, segments = self._sparse(block, flag, pax, _text(path))
        mode, uid, gid = self._owner(owner, pax)
        return Entry(
            name=_text(path),
            kind=kind,
            size=size,
            mode=mode,
            uid=uid,
            gid=gid,
            mtime_ns=_time(pax["mtime"]) if "mtime" in pax else _seconds(_number(mtime, "mtime")),
            link=_text(target),
            device=(_number(major, "devmajor"), _number(minor, "devminor")) if kind in _DEVICES else (0, 0),
            xattrs=self._xattrs(pax) if pax else {},
            segments=segments,
        )

    def _owner(self, raw: bytes, pax: dict[str, bytes]) -> tuple[int, int, int]:
        known = self._owners.get(raw)
        if known is not None and not pax:
            return known
        uid = decimal(pax["uid"]) if "uid" in pax else _number(raw[8:16], "uid")
        gid = decimal(pax["gid"]) if "gid" in pax else _number(raw[16:24], "gid")
        for key, value in (("uid", uid), ("gid", gid)):
            if not 0 <= value < (1 << 32) - 1:
                raise BadLayer(f"{key} {value} is out of range")
        found = (_number(raw[:8], "mode") & 0o7777, uid, gid)
        if not pax and len(self._owners) < _MAX_CACHED:
            self._owners[raw] = found
        return found

    def _sparse(self, block: bytes, flag: bytes, pax: dict[str, bytes], name: str) -> tuple[int, Segments]:
        """The real size of a sparse file and its segments; a map within the data is read here."""
        most = self._limits.max_header // BLOCK
        if flag == b"S":
            found, size, more = from_header(block)
            while more:
                # These blocks precede the data and are not included in its size.
                block = self._stream.take(BLOCK)
                parts, _, more = from_header(block, extension=True)
                found += parts
                most -= 1
                if most < 0 or len(block) < BLOCK:
                    raise BadLayer(f"{name!r}: the map of a sparse file is too long, or cut off")
        elif "GNU.sparse.major" in pax:
            size = decimal(pax.get("GNU.sparse.realsize", b"0"))
            found = self._sparse_text(name)
        else:
            size = decimal(pax["GNU.sparse.size"])
            found = from_pax(pax.get("GNU.sparse.map", b""))
        if size > self._limits.max_bytes:
            raise BadLayer(f"{name!r}: a sparse file of {size} bytes")
        return size, checked(found, size, self._left, name)

    def _sparse_text(self, name: str) -> list[Segment]:
        """Read the map of format 1.0: decimal numbers, one per line, in whole blocks before the data."""
        text = bytearray()
        lines = 0
        while (found := from_text(text, lines)) is None:
            if len(text) > self._limits.max_header or self._left < BLOCK:
                raise BadLayer(f"{name!r}: the map of a sparse file is too long, or cut off")
            block = self._stream.take(BLOCK)
            text += block
            lines += block.count(b"\n")
            self._left -= BLOCK
        return found

    def _xattrs(self, pax: dict[str, bytes]) -> dict[str, bytes]:
        found = {key[len(_XATTR) :]: value for key, value in pax.items() if key.startswith(_XATTR)}
        for key, value in found.items():
            if len(value) > self._limits.max_xattr or len(key) > 255 or "\0" in key:
                raise BadLayer(f"extended attribute {key[:80]!r} is too large, or has a NUL in its name")
        return found


def _check_sum(block: bytes) -> None:
    """Check the checksum of a header, which identifies a tar stream; the digest of the whole layer is checked too."""
    said = _number(block[148:156], "checksum")
    rest = block[:148] + b"        " + block[156:]
    # The lower half of Adler-32 is the sum plus one, modulo a prime, and sixty times faster to compute.
    if (said + 1) % _ADLER == (zlib.adler32(rest) & 0xFFFF):
        return
    # Some old writers sum signed bytes.
    if said != sum(byte - 256 if byte > 127 else byte for byte in rest):
        raise BadLayer("not a tar stream, or a damaged one: a header's checksum is wrong")


def _number(raw: bytes, what: str) -> int:
    """Parse an octal number, or a base-256 number of GNU tar."""
    if raw[0] & 0x80:
        value = int.from_bytes(raw, "big") & ((1 << (8 * len(raw) - 1)) - 1)
        return value - (1 << (8 * len(raw) - 1)) if raw[0] & 0x40 else value
    text = raw.partition(b"\0")[0].strip()
    if not text:
        return 0
    try:
        return int(text, 8)
    except ValueError as error:
        raise BadLayer(f"the tar header's {what} is not a number: {raw!r}") from error


def decimal(raw: bytes) -> int:
    """Parse a number in an extended header."""
    if not raw.isdigit() or len(raw) > 20:
        raise BadLayer(f"invalid number in an extended header: {raw[:40]!r}")
    return int(raw)


def _time(raw: bytes) -> int:
    """Parse a pax time (decimal seconds with a fraction) as nanoseconds."""
    whole, _, fraction = raw.partition(b".")
    sign = -1 if whole.startswith(b"-") else 1
    if fraction and not fraction.isdigit():
        raise BadLayer(f"invalid time in an extended header: {raw[:40]!r}")
    nanos = int((fraction + b"000000000")[:9])
    return _seconds(sign * decimal(whole.removeprefix(b"-"))) + sign * nanos


def _seconds(value: int) -> int:
    return max(-_MAX_SECONDS, min(value, _MAX_SECONDS)) * _NANO


def _joined(name: bytes, prefix: bytes, magic: bytes) -> bytes:
    name = name.split(b"\0", 1)[0]
    # GNU tar uses the bytes of POSIX's prefix for other fields.
    if prefix[0] == 0 or magic[:6] != b"ustar\0":
        return name
    return prefix.split(b"\0", 1)[0] + b"/" + name


def _pax(content: bytes) -> dict[str, bytes]:
    """Parse records of the form ``length key=value\\n``; the length is that of the record. Unknown keys are dropped."""
    records: dict[str, bytes] = {}
    sparse: list[bytes] = []
    position = 0
    while position < len(content):
        blank = content.find(b" ", position, position + 12)
        length = decimal(content[position:blank]) if blank > 0 else 0
        record = content[blank + 1 : position + length]
        key, equals, value = record[:-1].partition(b"=")
        if position + length > len(content) or length < 5 or record[-1:] != b"\n" or not equals:
            raise BadLayer("a damaged extended header")
        position += length
        if key in _SPARSE_PARTS:
            sparse.append(value)
            continue
        name = _text(key)
        if name in _KNOWN or name.startswith(_KNOWN_KINDS):
            records[name] = value
    if sparse:
        # Format 0.0 repeats its two records for each segment; joined they are the map of format 0.1.
        records["GNU.sparse.map"] = b",".join(sparse)
    if len(records) > _MAX_RECORDS:
        raise BadLayer(f"an extended header of {len(records)} records")
    return records


def _text(raw: bytes) -> str:
    return raw.decode(errors="surrogateescape")
