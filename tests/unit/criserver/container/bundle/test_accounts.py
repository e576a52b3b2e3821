"""The accounts of an image: found inside it, at low cost however many there are."""

import time
import tracemalloc
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.criserver.container.bundle.accounts import MAX_FILE, MAX_LINE, find_user
from pykubelet.pb import runtime_v1_pb2 as pb

Context = pb.LinuxContainerSecurityContext


def test_image_users_are_read_only_inside_the_root_file_system(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").symlink_to("/real")
    (tmp_path / "real").write_text("app:x:1000:1000::/home/app:/bin/sh\n")
    assert find_user(Context(), "app", tmp_path).uid == 1000


def test_an_image_without_users_runs_as_root(tmp_path: Path) -> None:
    assert find_user(Context(), "", tmp_path).uid == 0


def test_endless_passwd_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    with (tmp_path / "etc/passwd").open("wb") as file:
        file.truncate(100 << 20)
    with pytest.raises(Invalid, match="larger than 10 MiB"):
        find_user(Context(), "app", tmp_path)


def rootfs(directory: Path, passwd: bytes, group: bytes) -> Path:
    (directory / "etc").mkdir()
    (directory / "etc/passwd").write_bytes(passwd)
    (directory / "etc/group").write_bytes(group)
    return directory


def full(line: bytes) -> bytes:
    """As many lines as a file may hold."""
    return line * (MAX_FILE // len(line))


HOSTILE = {
    "accounts of others": (full(b"x:x:1:1::/:\n"), full(b"x:x:1:\n")),
    "members of every group": (b"", full(b"x:x:1:app\n")),
    "nearly members": (full(b"app :x:5:1::/:\n"), full(b"x:x:1:app x\n")),
    "many members": (full(b"\n"), full(b"x:x:1:" + b"a," * (MAX_LINE // 2 - 10) + b"\n")),
    "blanks": (full(b" " * 60_000 + b"\n"), full(b"x:x:1:" + b"app " * 15_000 + b"\n")),
    "colons": (full(b":" * 60_000 + b"\n"), full(b":" * 60_000 + b"\n")),
    "leading zeros": (full(b"x:x:" + b"0" * 60_000 + b"\n"), full(b"x:x:" + b"0" * 60_000 + b"\n")),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_largest_accounts_cost_little_time_and_memory(tmp_path: Path, name: str) -> None:
    """Lists of lists would take 250 MB for each created container."""
    passwd, group = HOSTILE[name]
    root = rootfs(tmp_path, passwd[: MAX_FILE - 100] + b"\napp:x:5:6::/:\n", group)
    for context in (Context(run_as_user=pb.Int64Value(value=5)), Context(run_as_username="app")):
        begin = time.process_time()
        assert find_user(context, "", root).uid == 5
        assert time.process_time() - begin < 2
    tracemalloc.start()
    try:
        find_user(Context(run_as_username="app"), "", root)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_user_with_only_broken_lines_is_rejected_before_all_are_read(tmp_path: Path) -> None:
    root = rootfs(tmp_path, full(b"app:x:9999999999:1::/:\n"), b"")
    with pytest.raises(Invalid, match="more than 1000 broken lines for user 'app'"):
        find_user(Context(run_as_username="app"), "", root)


def test_endless_line_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="/etc/passwd has a line longer than 64 KiB"):
        find_user(Context(run_as_username="app"), "", rootfs(tmp_path, b"x" * (4 * MAX_LINE), b""))


def test_lines_are_found_wherever_blocks_end(tmp_path: Path) -> None:
    for fill in (MAX_LINE - 5, MAX_LINE - 1, MAX_LINE, 3 * MAX_LINE - 2):
        (directory := tmp_path / str(fill)).mkdir()
        lines = b"#" * 20_000 + b"\n"
        before = (lines * 20)[-fill + 1 :] + b"\n"
        root = rootfs(directory, before + b"app:x:5:6::/:\n", before + b"g:x:7:app")
        assert find_user(Context(run_as_username="app"), "", root).groups == (6, 7)
