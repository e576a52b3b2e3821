"""An archive of a container is extracted below its target, whatever is in it."""

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from pykubelet.base.errors import Permanent
from pykubelet.base.units import Bytes
from pykubelet.cli.changes.tar_extract import base_name, extract
from pykubelet.cli.commands.pods import cp
from pykubelet.linux.filesystems import fsusage
from pykubelet.linux.filesystems.fsusage import FsUsage


def _member(name: str, content: bytes | None = None, **fields: object) -> tuple[tarfile.TarInfo, bytes | None]:
    member = tarfile.TarInfo(name)
    member.mode = 0o644
    if content is None:
        member.type = tarfile.DIRTYPE
        member.mode = 0o755
    else:
        member.size = len(content)
    for key, value in fields.items():
        setattr(member, key, value)
    return member, content


def _link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes | None]:
    return _member(name, b"", type=kind, linkname=target)


def _archive(*members: tuple[tarfile.TarInfo, bytes | None]) -> io.BytesIO:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:") as tar:
        for member, content in members:
            tar.addfile(member, io.BytesIO(content) if content else None)
    data.seek(0)
    return data


def _extract(target: Path, *members: tuple[tarfile.TarInfo, bytes | None], source: str = "d") -> list[str]:
    warnings: list[str] = []
    assert extract(_archive(*members), source, target, warnings.append) == len(warnings)
    return warnings


def _tree(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): f"-> {path.readlink()}" if path.is_symlink() else path.read_text()
        for path in root.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def test_directory_is_extracted_as_the_target(tmp_path: Path) -> None:
    members = (
        _member("./d"),
        _member("./d/a", b"1", mode=0o4755),
        _member("./d/sub/deep/b", b"2"),
        _link("./d/sub/up", "../a"),
        _link("./d/hard", "./d/a", tarfile.LNKTYPE),
    )
    assert _extract(tmp_path / "t", *members) == []
    assert _tree(tmp_path / "t") == {"a": "1", "sub/deep/b": "2", "sub/up": "-> ../a", "hard": "1"}
    assert (tmp_path / "t" / "a").stat().st_mode & 0o7777 == 0o755
    assert (tmp_path / "t" / "a").stat().st_nlink == 2


def test_file_is_extracted_as_the_target_or_into_it(tmp_path: Path) -> None:
    assert _extract(tmp_path / "t", _member("./d", b"1")) == []
    assert _extract(tmp_path / "t", _member("./d", b"2")) == []
    (tmp_path / "into").mkdir()
    assert _extract(tmp_path / "into", _member("./d", b"3")) == []
    assert _tree(tmp_path) == {"t": "2", "into/d": "3"}


@pytest.mark.parametrize(
    "member",
    [
        _member("../evil", b"x"),
        _member("./d/../../evil", b"x"),
        _member("/etc/evil", b"x"),
        _member("other/evil", b"x"),
        _link("./d/l", "/etc/passwd"),
        _link("./d/l", "../../evil"),
        _link("./d/l", ".."),
        _link("./d/l", "sub/../../evil"),
        _link("./d/l", "../evil", tarfile.LNKTYPE),
        _link("./d/l", "/etc/passwd", tarfile.LNKTYPE),
        _member("./d/pipe", b"", type=tarfile.FIFOTYPE),
        _member("./d/device", b"", type=tarfile.CHRTYPE, devmajor=1, devminor=3),
    ],
    ids=lambda member: f"{member[0].name}-{member[0].linkname}",
)
def test_members_that_lead_out_are_left_out(tmp_path: Path, member: tuple[tarfile.TarInfo, bytes | None]) -> None:
    target = tmp_path / "in" / "t"
    target.parent.mkdir()
    (warning,) = _extract(target, _member("./d"), member, _member("./d/good", b"1"))
    assert "left out" in warning
    assert _tree(tmp_path) == {"in/t/good": "1"}


def test_links_do_not_help_other_members_out(tmp_path: Path) -> None:
    target = tmp_path / "in" / "t"
    target.parent.mkdir()
    (tmp_path / "secret").write_text("kept")
    members = (
        _member("./d"),
        _member("./d/a"),
        _member("./d/a/b"),
        _link("./d/a/b/root", "../.."),  # inside
        _link("./d/a/b/chain", "root/.."),  # behind a link, .. leads out
    )
    assert len(_extract(target, *members)) == 1
    with pytest.raises(Permanent):  # a link is never followed on the way
        _extract(target, _member("./d/a/b/root/evil", b"x"))
    (target / "old").symlink_to(tmp_path / "secret")
    assert _extract(target, _member("./d/old", b"new")) == []
    assert ((tmp_path / "secret").read_text(), (target / "old").read_text()) == ("kept", "new")


def _negative(size: int = -(1 << 20)) -> bytes:
    """A header with a negative size, at which Python's own reader goes back and reads it again for ever."""
    header = bytearray(tarfile.TarInfo("./d").tobuf(tarfile.GNU_FORMAT))
    header[124:136] = (size & (1 << 96) - 1).to_bytes(12, "big")
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + bytes(1024)


def _sparse(size: int, segments: bytes, content: bytes = b"data") -> io.BytesIO:
    """An archive of one file in GNU's format 1.0 of sparse files."""
    data = segments.ljust(512, b"\0") + content
    headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "./d"}
    headers["GNU.sparse.realsize"] = str(size)
    return _archive(_member("./GNUSparseFile/d", data, pax_headers=headers))


def test_huge_hole_takes_neither_time_nor_space(tmp_path: Path) -> None:
    assert extract(_sparse(1 << 40, b"1\n1099511627772\n4\n"), "d", tmp_path / "t", print) == 0
    found = (tmp_path / "t").stat()
    assert (found.st_size, found.st_blocks * 512 < 1 << 20) == (1 << 40, True)
    with (tmp_path / "t").open("rb") as file:
        file.seek((1 << 40) - 4)
        assert file.read() == b"data"


@pytest.mark.parametrize(
    "data",
    [
        _negative(),
        gzip.compress(_archive(_member("./d", bytes(1 << 20))).getvalue()),
        _sparse(100, b"1000000\n0\n4\n").getvalue(),
        _sparse(8, b"2\n4\n4\n0\n4\n").getvalue(),
    ],
    ids=["negative size", "compressed", "map that is cut off", "map that goes back"],
)
def test_hostile_archive_is_a_clear_error(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(Permanent, match="damaged archive"):
        extract(io.BytesIO(data), "d", tmp_path / "t", print)


def test_archive_without_end_stops_before_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cp, "_UNCHECKED_BYTES", 100)
    free = 20
    monkeypatch.setattr(fsusage, "filesystem", lambda _: FsUsage(Bytes(100), Bytes(free), Bytes(80), 0, 0))
    file = io.BytesIO()
    sink = cp._BoundedFile(file, "/t")
    for _ in range(100):
        sink.write(b"0123456789")
    free = 9
    with pytest.raises(Permanent, match="less than a tenth of the file system of /t"):
        for _ in range(100):
            sink.write(b"0123456789")
    assert 1000 <= len(file.getvalue()) < 1200


@pytest.mark.parametrize("data", [b"not a tar" * 100, b"\0" * 1024])
def test_damaged_or_empty_archive(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(Permanent, match=r"damaged archive|has sent nothing"):
        extract(io.BytesIO(data), "d", tmp_path / "t", print)


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("/etc/hosts", ("/etc", "hosts")),
        ("/etc/", ("/", "etc")),
        ("file", (".", "file")),
        ("/", ("/", ".")),
        (".", (".", ".")),
        ("../up", ("..", "up")),
        ("..", ("..", ".")),
    ],
)
def test_path_is_split_into_directory_and_base_name(path: str, parts: tuple[str, str]) -> None:
    assert base_name(path) == parts
