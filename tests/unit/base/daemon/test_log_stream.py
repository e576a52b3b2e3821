"""The log's output: a reader that hangs does not stop the writer."""

import os
import pty
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from pykubelet.base.clock import SystemClock
from pykubelet.base.daemon.log_stream import LogStream, stream_for
from pykubelet.testing.clock import VirtualClock

LINE = "x" * 199 + "\n"


@pytest.fixture(params=["pipe", "socket"])
def ends(request: pytest.FixtureRequest) -> Iterator[tuple[int, int]]:
    """The reader's and the writer's end."""
    if request.param == "pipe":
        reader, writer = os.pipe()
    else:
        one, two = socket.socketpair()
        reader, writer = one.detach(), two.detach()
    yield reader, writer
    for fd in (reader, writer):
        os.close(fd)


def _read_all(fd: int) -> str:
    os.set_blocking(fd, False)
    found = b""
    try:
        while piece := os.read(fd, 1 << 20):
            found += piece
    except BlockingIOError:
        pass
    return found.decode()


def _stream(fd: int) -> LogStream:
    made = stream_for(fd, SystemClock())
    assert made is not None
    return made


def test_lines_reach_the_reader_unchanged(ends: tuple[int, int]) -> None:
    stream = _stream(ends[1])
    stream.write("one ä\n")
    stream.write("two \udcff\n")
    assert _read_all(ends[0]) == "one ä\ntwo \\udcff\n"
    assert os.get_blocking(ends[1]), "others share the descriptor"
    stream.close()


def test_reader_that_hangs_costs_lines_and_no_time(ends: tuple[int, int]) -> None:
    stream = _stream(ends[1])
    begun = time.monotonic()
    for _ in range(20_000):
        stream.write(LINE)
    assert time.monotonic() - begun < 20, "4 MB that no one reads"
    taken = _read_all(ends[0])
    whole = taken.count(LINE)
    assert 0 < whole < 20_000
    stream.write("next\n")
    rest = _read_all(ends[0])
    assert rest.endswith(f"{20_000 - whole} log lines were dropped: the reader of the log did not take them\nnext\n")
    assert (taken + rest).splitlines()[-2:] == rest.splitlines()[-2:], "the note is a line of its own"
    stream.write("last\n")
    assert _read_all(ends[0]) == "last\n"
    stream.close()


def test_slow_reader_is_waited_for() -> None:
    with subprocess.Popen(["wc", "-c"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        assert reader.stdin is not None
        stream = _stream(reader.stdin.fileno())
        for _ in range(2000):
            stream.write(LINE)
        stream.close()
        output, _ = reader.communicate(timeout=30)
    assert int(output) == 2000 * len(LINE)


def test_reader_that_is_gone_is_no_error(ends: tuple[int, int]) -> None:
    reader = os.dup(ends[0])
    os.close(reader)
    other, writer = os.pipe()
    stream = _stream(writer)
    os.close(other)
    stream.write(LINE)
    os.close(writer)
    stream.close()


def test_terminal_that_was_stopped_does_not_stop_the_writer() -> None:
    master, slave = pty.openpty()
    stream = _stream(slave)
    begun = time.monotonic()
    for _ in range(5000):
        stream.write(LINE)
    assert time.monotonic() - begun < 20
    stream.close()
    for fd in (master, slave):
        os.close(fd)


async def test_patience_is_for_a_period() -> None:
    reader, writer = os.pipe()
    clock = VirtualClock()
    stream = LogStream(writer, clock)
    for _ in range(1000):
        stream.write(LINE)
    _read_all(reader)
    await clock.advance(11.0)
    stream.write("next\n")
    assert "log lines were dropped" in _read_all(reader)
    stream.close()
    for fd in (reader, writer):
        os.close(fd)


def test_file_needs_no_such_stream(tmp_path: object) -> None:
    with open(os.devnull, "w") as null, closing(socket.socket()) as closed:
        assert stream_for(null.fileno(), SystemClock()) is None
        number = closed.fileno()
    assert stream_for(number, SystemClock()) is None, "it is closed"


def test_daemon_whose_log_no_one_reads_goes_on() -> None:
    program = (
        "import logging; from pykubelet.base.daemon.log import setup\n"
        "setup('info')\n"
        "for number in range(20000): logging.getLogger('x').info('line', extra={'number': number})\n"
        "print('done')\n"
    )
    reader, writer = os.pipe()
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=writer, timeout=60)
    assert done.stdout == b"done\n"
    assert _read_all(reader).startswith("20")
    for fd in (reader, writer):
        os.close(fd)
