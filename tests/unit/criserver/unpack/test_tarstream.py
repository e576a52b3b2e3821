"""Tar streams of every make, and damaged ones: read right, or refused by a BadLayer; nothing else ever comes out."""

import gzip
import io
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pykubelet.base.units import Bytes
from pykubelet.criserver.unpack.limits import BadLayer, Limits
from pykubelet.criserver.unpack.plan.sparse import Segments, checked, from_header, from_pax, from_text
from pykubelet.criserver.unpack.stream import ByteStream, plain_chunks
from pykubelet.criserver.unpack.tarstream import BLOCK, Entry, EntryKind, TarReader

SMALL = Limits(max_bytes=Bytes(64 << 20), max_entries=1000)


def read(data: bytes, limits: Limits = SMALL) -> list[tuple[Entry, bytes]]:
    """All entries with the bytes that are stored for them."""
    stream = ByteStream(io.BytesIO(data), limits)
    try:
        reader = TarReader(stream, limits)
        return [(entry, b"".join(map(bytes, reader.data()))) for entry in reader]
    finally:
        stream.close()


def tar(*names: str, kind: int = tarfile.PAX_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=kind) as archive:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size, info.uid, info.mtime = 700, 1000, 1_700_000_000
            archive.addfile(info, io.BytesIO(name.encode()[:1] * 700))
    return buffer.getvalue()


def with_field(data: bytes, at: int, value: bytes) -> bytes:
    """The first header with a field of other content, and a right checksum."""
    header = bytearray(data[:BLOCK])
    header[at : at + len(value)] = value
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + data[BLOCK:]


@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_good_streams_are_read_with_names_and_metadata(kind: int) -> None:
    names = ["a", "dir/b" * 20, "n" * 90 + "/" + "m" * 99]
    found = read(tar(*names, kind=kind))
    assert [entry.name for entry, _ in found] == names
    assert all(content == entry.name.encode()[:1] * 700 for entry, content in found)
    assert {(entry.uid, entry.gid, entry.mode, entry.mtime_ns) for entry, _ in found} == {
        (1000, 0, 0o644, 1_700_000_000 * 10**9)
    }


@pytest.mark.parametrize(
    ("at", "value", "why"),
    [
        (124, b"\xff" * 12, "an entry of -1 bytes"),
        (124, b"\x80" + b"\xff" * 11, "an entry of"),
        (124, b"77777777777\0", "an entry of"),
        (124, b"9x", "size is not a number"),
        (108, b"\xff" * 8, "uid -1 is out of range"),
        (116, b"\x80\0\0\0\xff\xff\xff\xff", "gid 4294967295 is out of range"),
        (156, b"Z", "type b'Z'"),
        (156, b"D", "type b'D'"),
    ],
)
def test_numbers_and_types_that_make_no_sense(at: int, value: bytes, why: str) -> None:
    with pytest.raises(BadLayer, match=why):
        read(with_field(tar("a"), at, value))


@pytest.mark.parametrize(
    "records",
    [b"5 size=-1\n", b"99 a=b\n", b"x\n", b"10 size=9x\n", b"9 uid=-5\n", b"0 \n", b"6 a=b\nq", b"12 mtime=1.x\n"],
)
def test_extended_headers_that_make_no_sense(records: bytes) -> None:
    header = with_field(tar("a", kind=tarfile.USTAR_FORMAT)[:BLOCK], 124, b"%011o\0" % len(records))
    header = with_field(header, 156, b"x")
    with pytest.raises(BadLayer):
        read(header + records.ljust(BLOCK, b"\0") + tar("a"))


def test_a_header_without_its_entry_and_one_too_large() -> None:
    whole = tar("n" * 200)
    with pytest.raises(BadLayer, match="ends after an extended header"):
        read(whole[: 2 * BLOCK])
    with pytest.raises(BadLayer, match="an extended header of -1 bytes"):
        read(with_field(with_field(whole, 124, b"\xff" * 12), 156, b"x"))
    with pytest.raises(BadLayer, match="an extended header of 2097152 bytes"):
        read(with_field(whole, 124, b"%011o\0" % (2 << 20)))


def extended(kind: bytes, *records: bytes) -> bytes:
    """An extended header as a whole, of records without their lengths."""
    lines = []
    for record in records:
        length = len(record) + 2
        while len(b"%d %s\n" % (length, record)) != length:
            length += 1
        lines.append(b"%d %s\n" % (length, record))
    content = b"".join(lines)
    header = with_field(tar("h", kind=tarfile.USTAR_FORMAT)[:BLOCK], 124, b"%011o\0" % len(content))
    return with_field(header, 156, kind) + content + bytes(-len(content) % BLOCK)


@pytest.mark.parametrize(
    "header",
    [
        b"".join(extended(b"x", b"comment=" + bytes([65 + n]) * 400_000) for n in range(3)),
        b"".join(extended(b"g", b"comment=" + bytes([65 + n]) * 400_000) + tar("a")[: 3 * BLOCK] for n in range(3)),
        extended(b"x", *(b"SCHILY.xattr.user.%d=x" % n for n in range(1001))),
        extended(b"x", b"SCHILY.xattr.user.a\0b=x"),
        extended(b"x", b"SCHILY.xattr.user." + "é".encode() * 300 + b"=x"),
    ],
    ids=["many", "global", "records", "NUL in a name", "long name"],
)
def test_extended_headers_that_pile_up(header: bytes) -> None:
    with pytest.raises(BadLayer, match="extended"):
        read(header + tar("a"))


def test_unknown_pax_records_are_skipped() -> None:
    ((entry, content),) = read(
        extended(b"g", b"comment=0123", b"uid=7") + extended(b"x", *(b"other.%d=x" % n for n in range(2000))) + tar("a")
    )
    assert (entry.name, entry.uid, len(content)) == ("a", 7, 700)


@pytest.mark.timeout(60)
def test_the_longest_map_takes_no_time() -> None:
    """Numbers for ever: to look at all of it with each block would take minutes."""
    data = b"400000\n" + b"0\n" * 520_000
    header = extended(b"x", b"GNU.sparse.major=1", b"GNU.sparse.realsize=10")
    file = with_field(tar("a", kind=tarfile.USTAR_FORMAT)[:BLOCK], 124, b"%011o\0" % (4 << 20))
    begin = time.process_time()
    with pytest.raises(BadLayer, match="sparse"):
        read(header + file + data.ljust(4 << 20, b"0"))
    assert time.process_time() - begin < 2


@pytest.mark.parametrize("end", [*range(0, 3 * BLOCK, 100), 3 * BLOCK, 3 * BLOCK + 1, 4 * BLOCK, 5 * BLOCK])
def test_streams_cut_anywhere(end: int) -> None:
    """Only where one entry ends and the next has not begun a cut can be taken for the end."""
    data = tar("a", "b", kind=tarfile.USTAR_FORMAT)[:end]
    if end in (0, 3 * BLOCK):
        assert len(read(data)) == end // (3 * BLOCK)
    else:
        with pytest.raises(BadLayer, match="ends inside"):
            read(data)


@given(st.integers(0, 5 * BLOCK - 1), st.binary(min_size=1, max_size=12), st.booleans(), st.sampled_from([0, 1, 2]))
@example(124, b"\x80" + b"\0" * 10 + b"\1", True, 0)
def test_damage_is_read_or_refused(at: int, value: bytes, fixed: bool, kind: int) -> None:
    data = tar("a", "n" * 150, kind=kind) if kind else tar("a", "n" * 90, kind=kind)
    damaged = (
        with_field(data, at % 500, value[: 500 - at % 500]) if fixed else data[:at] + value + data[at + len(value) :]
    )
    try:
        for entry, content in read(damaged):
            assert 0 <= len(content) <= entry.size
            assert entry.kind in EntryKind and "\0" not in entry.name
    except BadLayer:
        pass


FORMATS = [("gnu", ""), ("posix", "0.0"), ("posix", "0.1"), ("posix", "1.0")]


def sparse_file(path: Path, parts: int) -> bytes:
    """A file of islands in holes, with a hole at its end; returns the content."""
    with path.open("wb") as file:
        for number in range(parts):
            file.seek(number * 100_000 + 65_536)
            file.write(b"%06d" % number * 700)
        file.truncate(parts * 100_000 + 500_000)
    return path.read_bytes()


@pytest.mark.skipif(shutil.which("tar") is None, reason="needs GNU tar: apt-get install tar")
@pytest.mark.parametrize("parts", [0, 1, 3, 5, 60])
@pytest.mark.parametrize(("form", "version"), FORMATS)
def test_sparse_files_of_gnu_tar(tmp_path: Path, form: str, version: str, parts: int) -> None:
    content = sparse_file(tmp_path / "holes", parts)
    (tmp_path / "after").write_text("after")
    command = ["tar", "-S", f"--format={form}", *([f"--sparse-version={version}"] if version else [])]
    data = subprocess.run([*command, "-c", "holes", "after"], cwd=tmp_path, check=True, capture_output=True).stdout
    (holes, stored), (after, text) = read(data)
    assert (holes.name, holes.size) == ("holes", len(content)) and (after.name, text) == ("after", b"after")
    made = bytearray(holes.size)
    position = 0
    for offset, length in holes.segments or []:
        made[offset : offset + length] = stored[position : position + length]
        position += length
    assert holes.segments is not None and bytes(made) == content
    assert len(stored) < len(content) / 2 or parts == 60


@pytest.mark.parametrize(
    ("segments", "size", "stored"),
    [
        ([(0, 10), (5, 10)], 100, 20),
        ([(10, 10), (0, 5)], 100, 15),
        ([(95, 10)], 100, 10),
        ([(0, 10)], 100, 9),
        ([(0, -1)], 100, -1),
        ([(1 << 62, 1)], 1 << 70, 0),
    ],
)
def test_maps_that_make_no_sense(segments: list[tuple[int, int]], size: int, stored: int) -> None:
    with pytest.raises(BadLayer):
        checked(segments, size, stored, "f")


def _from_text(text: bytes) -> Segments | None:
    return from_text(text, text.count(b"\n"))


@given(st.binary(max_size=80))
def test_any_map_is_read_or_refused(raw: bytes) -> None:
    for work in (from_pax, _from_text, lambda data: from_header(data.ljust(512, b"\0"))):
        try:
            work(raw)
        except BadLayer:
            pass


def test_sparse_file_of_absurd_size_is_refused() -> None:
    header = with_field(tar("a"), 156, b"S")
    header = with_field(header, 483, b"\x80" + (1 << 60).to_bytes(11, "big"))
    with pytest.raises(BadLayer, match="sparse"):
        read(header)


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 1000)), max_size=8))
def test_the_text_of_a_map_is_found_however_it_comes(parts: list[tuple[int, int]]) -> None:
    text = b"%d\n" % len(parts) + b"".join(b"%d\n%d\n" % part for part in parts)
    for end in range(len(text)):
        assert _from_text(text[:end]) is None
    assert _from_text(text) == parts and _from_text(text + b"\0" * 40) == parts


@pytest.mark.timeout(120)
def test_pax_sparse_map_of_many_records_is_read_in_linear_time() -> None:
    """Each part comes in two records of its own; to join them one by one would copy the map for each."""
    zero = b"0" * 20
    most = Limits().max_header // len(b"44 GNU.sparse.numbytes=%s\n" % zero) // 2
    file = with_field(tar("a", kind=tarfile.USTAR_FORMAT)[:BLOCK], 124, b"0" * 11)

    def seconds_of(count: int) -> float:
        parts = [b"GNU.sparse.offset=" + zero, b"GNU.sparse.numbytes=" + zero] * count
        data = (extended(b"x", b"GNU.sparse.size=0", *parts) + file) * 4
        begin = time.process_time()
        found = read(data)
        seconds = time.process_time() - begin
        assert [entry.segments for entry, _ in found] == [[(0, 0)] * count] * 4
        return seconds

    # In quadratic time, sixteen times as much.
    assert min(seconds_of(most) for _ in range(3)) < 10 * min(seconds_of(most // 4) for _ in range(2))


def test_global_extended_header_with_attributes_and_names_concerns_no_entry() -> None:
    """It would be written again with each entry: a kilobyte of archive for a megabyte of attributes."""
    header = extended(b"g", b"SCHILY.xattr.user.a=x", b"path=b", b"size=1", b"gid=8", b"GNU.sparse.major=1")
    ((entry, content),) = read(header + tar("a", kind=tarfile.USTAR_FORMAT))
    assert (entry.name, entry.xattrs, entry.gid, len(content)) == ("a", {}, 8, 700)


@pytest.mark.timeout(120)
def test_gzip_of_a_million_empty_members_is_read_in_linear_time() -> None:
    """zlib copies all that lies behind a member: of a quarter of a mebibyte for each of twenty bytes."""
    empty = gzip.compress(b"", mtime=0)
    data = empty * ((6 << 20) // len(empty)) + gzip.compress(b"end") + bytes(100_000)
    begin = time.process_time()
    assert b"".join(plain_chunks(io.BytesIO(data), SMALL)) == b"end"
    assert time.process_time() - begin < 4


@pytest.mark.parametrize("padding", [b"", bytes(1), bytes(5000), bytes(600_000)])
def test_gzip_members_of_all_sizes_with_padding_between_them_are_joined(padding: bytes) -> None:
    parts = [b"a" * 3_000_000, b"", b"b", bytes(range(256)) * 4000, b"", b"c" * 10]
    data = b"".join(gzip.compress(part) + padding for part in parts)
    assert b"".join(plain_chunks(io.BytesIO(data), SMALL)) == b"".join(parts)
    with pytest.raises(BadLayer, match="too early"):
        list(plain_chunks(io.BytesIO(data.rstrip(b"\0")[:-3]), SMALL))
