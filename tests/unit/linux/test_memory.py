"""Giving memory back, in this very process."""

import ctypes
from pathlib import Path

from pykubelet.linux import memory

MAPS = """\
7f0000000000-7f0000002000 r--p 00000000 fe:01 12 /usr/lib/libc.so.6
7f0000002000-7f0000005000 r-xp 00002000 fe:01 12 /usr/lib/libc.so.6
7f0000005000-7f0000006000 rw-p 00005000 fe:01 12 /usr/lib/libc.so.6
7f0000006000-7f0000007000 r-xp 00000000 00:00 0
7f0000007000-7f0000008000 r-xp 00000000 00:00 0 [vdso]
7f0000008000-7f0000009000 rwxp 00000000 fe:01 13 /tmp/jit (deleted)
7f0000009000-7f000000b000 r-xp 00000000 fe:01 14 /opt/a directory/lib.so
"""


def test_code_mappings_are_read_only_file_mappings() -> None:
    assert list(memory.code_mappings(MAPS)) == [(0x7F0000002000, 0x3000), (0x7F0000009000, 0x2000)]


def _resident_file_pages() -> int:
    text = Path("/proc/self/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("RssFile")).split()[1])


def test_code_is_forgotten_and_read_again() -> None:
    before = _resident_file_pages()
    assert memory.drop_code_pages() > 1 << 20
    assert _resident_file_pages() < before
    assert ctypes.CDLL(None).getpid() > 0
    assert sorted("code") == ["c", "d", "e", "o"]


def test_the_heap_is_trimmed() -> None:
    assert memory.limit_arenas()
    blocks = [bytes(100_000) for _ in range(200)]
    del blocks
    memory.trim()  # whether something was free is the C library's to say
