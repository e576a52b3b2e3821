"""Maps of sparse files in tar streams: the segments that have data; the rest of the file are holes. Pure.

Source: GNU tar manual, "Storing Sparse Files": the old format, and those in extended headers, 0.0, 0.1 and 1.0.
"""

from pykubelet.criserver.unpack.limits import BadLayer

Segment = tuple[int, int]
"""Offset in the file, and length in bytes."""
Segments = list[Segment]
_BLOCK = 512
_FIELD = 12
_IN_HEADER = 4
_IN_EXTENSION = 21
_LONGEST_NUMBER = 32


def from_header(block: bytes, *, extension: bool = False) -> tuple[Segments, int, bool]:
    """Parse the old format in a header or an extension block: segments, real size, whether more blocks follow."""
    start, count = (0, _IN_EXTENSION) if extension else (386, _IN_HEADER)
    found = []
    for position in range(start, start + count * 2 * _FIELD, 2 * _FIELD):
        offset, length = block[position : position + _FIELD], block[position + _FIELD : position + 2 * _FIELD]
        if not offset.strip(b"\0 ") and not length.strip(b"\0 "):
            break
        found.append((_octal(offset), _octal(length)))
    if extension:
        return found, 0, block[504:505] not in (b"\0", b"")
    return found, _octal(block[483:495]), block[482:483] != b"\0"


def from_pax(value: bytes) -> Segments:
    """Parse format 0.1 (0.0 is converted to it): alternating offsets and lengths, separated by commas."""
    return _pairs([number for number in value.split(b",") if number])


def from_text(text: bytes | bytearray, ended: int) -> Segments | None:
    """Parse format 1.0: the count, then offsets and lengths, one line each; None while the text is incomplete.

    ``ended`` is the number of complete lines: counting them again for each block would take quadratic time.
    """
    if not ended:
        return None
    first, _, _ = bytes(text[:_LONGEST_NUMBER]).partition(b"\n")
    count = 2 * _decimal(first)
    if ended <= count:
        return None
    return _pairs(bytes(text[len(first) + 1 :]).split(b"\n", count)[:count])


def checked(segments: Segments, size: int, stored: int, name: str) -> Segments:
    """Check that segments are in order, inside the file, and as long as the stored data; otherwise raise BadLayer."""
    end = 0
    for offset, length in segments:
        if offset < end or length < 0 or offset + length > size:
            raise BadLayer(f"{name!r}: the segments of a sparse file overlap or exceed its size")
        end = offset + length
    if sum(length for _, length in segments) != stored:
        raise BadLayer(f"{name!r}: the segments of a sparse file are not as long as its data")
    return segments


def _pairs(numbers: list[bytes]) -> Segments:
    if len(numbers) % 2:
        raise BadLayer("the map of a sparse file has an odd number of entries")
    values = [_decimal(number) for number in numbers]
    return list(zip(values[::2], values[1::2], strict=True))


def _decimal(raw: bytes) -> int:
    if not raw.isdigit() or len(raw) > 20:
        raise BadLayer(f"invalid number in the map of a sparse file: {raw[:40]!r}")
    return int(raw)


def _octal(raw: bytes) -> int:
    if raw[:1] and raw[0] & 0x80:
        return int.from_bytes(raw[1:], "big")
    text = raw.strip(b"\0 ")
    try:
        return int(text, 8) if text else 0
    except ValueError as error:
        raise BadLayer(f"invalid number in the map of a sparse file: {raw!r}") from error
