"""Contract of output, also hostile: floods, open descriptors, log lines. On real runtimes only."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pykubelet.base.units import MIB
from pykubelet.kubelet.actuate.cri import CriTimeout, CriUnavailable
from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.linux.sockets import listener
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.fake_cri import Script
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.wait import until
from tests.contract.cri.rig import ENDPOINT, REAL, STUBBORN, Program, Runtime

pytestmark = [pytest.mark.parametrize("endpoint", REAL, indirect=True)]

_CAP = 16 * MIB
_IMITATION = b"2020-01-01T00:00:00.000000000Z stdout F not what it seems"
_WRITTEN = (
    b"first\n",
    b"x" * 100_000 + b"\n",
    _IMITATION + b"\n",
    b"carriage\rreturn\r\n",
    bytes(range(256)) + b"\n",
    b"\n",
    b"2020-01-01T00:00:00.000000000Z stdout P ",
    b"\nno end",
)


@dataclass(frozen=True)
class _Record:
    """One line of a log in CRI's format."""

    stamp: str
    stream: str
    tag: str
    text: bytes


def _records(log: Path) -> Iterator[_Record]:
    for line in log.read_bytes().removesuffix(b"\n").split(b"\n"):
        stamp, stream, tag, text = line.split(b" ", 3)
        yield _Record(stamp.decode(), stream.decode(), tag.decode(), text)


def _memory(label: str) -> int:
    """Memory of the runtime's daemon in bytes: ``VmRSS``, or ``VmHWM`` for its maximum."""
    pid = listener(Path(os.environ[ENDPOINT].removeprefix("unix://")))
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition(f"{label}:")[2].split()[0]) * 1024


async def test_large_output_of_command_is_truncated(runtime: Runtime) -> None:
    """Output is returned up to a limit; the rest is read and dropped, so that the command can finish.

    containerd 1.6 truncates at the limit of a message, so that the truncated output exceeds the message.
    """
    container = await runtime.start(STUBBORN)
    flood = "yes 0123456789 | head -c 60000000; yes e | head -c 60000000 >&2; exit 3"
    if not await runtime.is_ours():
        with pytest.raises(CriUnavailable, match="larger than max"):
            await runtime.client.exec_sync(container, ["sh", "-c", flood], 60 * PATIENCE)
        return
    result = await runtime.client.exec_sync(container, ["sh", "-c", flood], 60 * PATIENCE)
    assert result.exit_code == 3
    assert len(result.stdout) > MIB and result.stdout.startswith(b"0123456789\n")
    assert len(result.stderr) > MIB and len(result.stdout) + len(result.stderr) <= _CAP


async def test_an_endless_flood_ends_at_the_timeout(runtime: Runtime) -> None:
    container = await runtime.start(STUBBORN)
    before = _memory("VmHWM")
    for _ in range(2):
        begin = time.monotonic()
        with pytest.raises(CriTimeout):
            await runtime.client.exec_sync(container, ["yes"], 2)
        assert time.monotonic() - begin < 15
    # Both streams and one copy of the response, at most twice.
    assert _memory("VmHWM") - before < 6 * _CAP
    result = await runtime.client.exec_sync(container, ["sh", "-c", "ps -o args | grep -c '^yes'"], 10)
    assert result.stdout.strip() == b"0", "the command was left running"


_LIST = ("sh", "-c", "exec ls -l /proc/self/fd")


def _descriptors(listing: str) -> set[int]:
    """Open files of a process, except the directory that it lists."""
    links = [line.split()[-3::2] for line in listing.splitlines() if "->" in line]
    return {int(number) for number, target in links if not target.endswith("/fd")}


@pytest.mark.parametrize("terminal", [False, True])
async def test_no_descriptor_leaks_into_a_container(runtime: Runtime, terminal: bool) -> None:
    config = runtime.container_config(Program("lister", _LIST, Script()))
    config.tty = terminal
    container = await runtime.client.create_container(await runtime.sandbox(), config, runtime.pod_config())
    await runtime.client.start_container(container)
    status = await runtime.ended(container)
    listing = "\n".join(record.text.decode() for record in _records(Path(status.log_path)))
    assert _descriptors(listing) == {0, 1, 2}, listing


async def test_no_descriptor_leaks_into_a_command(runtime: Runtime) -> None:
    container = await runtime.start(STUBBORN)
    listing = (await runtime.client.exec_sync(container, list(_LIST), 10)).stdout.decode()
    assert _descriptors(listing) == {0, 1, 2}, listing


async def test_log_contains_exactly_the_output(runtime: Runtime) -> None:
    """Long lines are split into partial lines, and no content can forge a log line."""
    (runtime.logs / "input").write_bytes(b"".join(_WRITTEN))
    config = runtime.container_config(Program("writer", ("cat", "/in/input"), Script()))
    config.mounts.append(pb.Mount(host_path=str(runtime.logs), container_path="/in", readonly=True))
    container = await runtime.client.create_container(await runtime.sandbox(), config, runtime.pod_config())
    await runtime.client.start_container(container)
    status = await runtime.ended(container)
    records = list(_records(Path(status.log_path)))
    lines, line = [], b""
    for record in records:
        assert (record.stream, record.stamp[:2]) == ("stdout", "20") and record.tag in ("P", "F"), record
        line += record.text
        if record.tag == "F":
            lines.append(line)
            line = b""
    found, written = lines + ([line] if line else []), b"".join(_WRITTEN).split(b"\n")
    if not await runtime.is_ours():
        # containerd treats a carriage return before the end of a line as part of the line end.
        written = [each.removesuffix(b"\r") for each in written]
    assert found == written
    assert max(len(record.text) for record in records) <= 16384
    stamps = [record.stamp for record in records]
    assert stamps == sorted(stamps) and not any(stamp.startswith("2020") for stamp in stamps)


async def test_output_after_rotation_goes_to_the_new_log(runtime: Runtime) -> None:
    container = await _run(runtime, "i=0; while :; do echo line $((i += 1)); sleep 0.02; done")
    log = Path((await runtime.status(container)).log_path)
    old = log.with_suffix(".rotated")
    await until(lambda: log.is_file() and log.read_bytes().count(b"\n") >= 3)
    log.rename(old)
    await runtime.client.reopen_container_log(container)
    end = old.read_bytes()
    await until(lambda: log.read_bytes().count(b"\n") >= 3)
    assert old.read_bytes() == end
    await runtime.client.stop_container(container, 0)
    texts = [record.text for part in (old, log) for record in _records(part)]
    assert texts == [b"line %d" % (number + 1) for number in range(len(texts))], "a line is lost or doubled"


async def test_log_distinguishes_stdout_and_stderr(runtime: Runtime) -> None:
    command = "printf 'half of'; sleep 0.2; printf 'an error' >&2; sleep 0.2; echo ' a line'; echo >&2"
    container = await _run(runtime, command)
    status = await runtime.ended(container)
    by_stream: dict[str, bytes] = {"stdout": b"", "stderr": b""}
    for record in _records(Path(status.log_path)):
        by_stream[record.stream] += record.text + (b"\n" if record.tag == "F" else b"")
    assert by_stream == {"stdout": b"half of a line\n", "stderr": b"an error\n"}


async def _run(runtime: Runtime, command: str) -> ContainerID:
    return await runtime.start(Program("shell", ("sh", "-c", command), Script()))
