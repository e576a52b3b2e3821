"""Log rotation with a runtime that keeps a log open by its inode, as real ones do."""

import asyncio
import errno
import gzip
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.guard import item_failures
from pykubelet.base.errors import Transient
from pykubelet.base.files.safe_path import directory_at
from pykubelet.base.units import Bytes
from pykubelet.kubelet.actuate.cri_messages.labels import (
    CONTAINER_NAME,
    POD_NAME,
    POD_NAMESPACE,
    POD_UID,
    RESTART_COUNT,
)
from pykubelet.kubelet.actuate.logs import LogRotation, RotationConfig, log_files, log_rotation
from pykubelet.kubelet.actuate.logs.log_types import LogPlace
from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.wait import until

LIMIT = 100


@dataclass
class Writer:
    """One container of one pod, and the runtime."""

    root: Path
    clock: VirtualClock = field(default_factory=VirtualClock)
    attempt: int = 0
    runs: bool = True
    listed: int = 0
    broken: Exception | None = None
    hold: asyncio.Event | None = None
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the log was renamed and the runtime is called to reopen it."""

    def __post_init__(self) -> None:
        self.directory = self.root / "default_web_u1" / "app"
        self.directory.mkdir(parents=True)
        self.path = self.directory / f"{self.attempt}.log"
        self.file = self.path.open("ab")

    def write(self, text: str) -> None:
        self.file.write(text.encode())
        self.file.flush()

    def close(self) -> None:
        self.file.close()

    async def list_containers(self, filter: pb.ContainerFilter | None = None) -> list[pb.Container]:
        assert filter is not None
        assert filter.label_selector == {POD_UID: "u1", CONTAINER_NAME: "app"}
        self.listed += 1
        labels = {POD_NAME: "web", POD_NAMESPACE: "default", POD_UID: "u1", CONTAINER_NAME: "app"}
        row = pb.Container(id="c1", labels=labels, annotations={RESTART_COUNT: str(self.attempt)})
        return [row] if self.runs else []

    async def reopen_container_log(self, container: ContainerID) -> None:
        assert container == "c1"
        self.asked.set()
        if self.hold is not None:
            await self.hold.wait()
        if self.broken is not None:
            raise self.broken
        self.file.close()
        self.file = self.path.open("ab")

    def rotation(self, max_files: int = 3, max_size: int = LIMIT) -> LogRotation:
        return LogRotation(cri=self, config=RotationConfig(self.root, Bytes(max_size), max_files), clock=self.clock)

    def files(self) -> dict[str, str]:
        """Content by name."""
        return {
            path.name: (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode()
            for path in sorted(self.directory.iterdir())
        }


@contextmanager
def recorded_calls(patch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The owners of blocking calls."""
    owners: list[str] = []
    original = blocking.call

    async def call(owner: str, *args: Any, **kwargs: Any) -> Any:
        owners.append(owner)
        return await original(owner, *args, **kwargs)

    patch.setattr(blocking, "call", call)
    yield owners


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(tmp_path)


async def test_a_small_log_is_left_alone_and_costs_no_call(writer: Writer) -> None:
    writer.write("x" * (LIMIT - 1))
    await writer.rotation().look()
    assert list(writer.files()) == ["0.log"]
    assert writer.listed == 0
    writer.close()


async def test_logs_are_rotated_packed_and_dropped(writer: Writer) -> None:
    rotation = writer.rotation()
    for number in range(4):
        writer.write(str(number) * LIMIT)
        await writer.clock.advance(10)
        await rotation.look()
    writer.write("now")
    found = writer.files()
    assert [name.removeprefix("0.log") == "" for name in found] == [True, False, False]
    assert [text[:3] for text in found.values()] == ["now", "222", "333"]
    assert [name.endswith(".gz") for name in found] == [False, True, False]
    writer.close()


async def test_deleted_log_of_a_running_container_is_written_again(writer: Writer) -> None:
    writer.path.unlink()
    rotation = writer.rotation()
    await rotation.look()
    writer.write("after")
    assert writer.files() == {"0.log": "after"}
    await rotation.look()
    assert writer.listed == 1, "a log that is there costs no call"
    writer.path.unlink()
    writer.runs = False
    await rotation.look()
    assert writer.files() == {}, "it writes nothing any more"
    writer.close()


@pytest.mark.parametrize("jumps", [(-3600.0, 3600.0), (3600.0, -3600.0), (-3600.0, -3600.0), (0.0, 0.0)])
async def test_wall_clock_that_jumps_leaves_the_newest_logs_and_overwrites_none(
    writer: Writer, jumps: tuple[float, float]
) -> None:
    rotation = writer.rotation(max_files=4)
    for number in range(9):
        writer.write(str(number) * LIMIT)
        writer.clock.jump_wall(jumps[number % 2])  # no time passes otherwise: stamps may be of the same second
        await rotation.look()
    writer.write("now")
    found = list(writer.files().values())
    assert [text[:3] for text in found] == ["now", "666", "777", "888"]
    writer.close()


async def test_log_without_running_container_is_not_rotated(writer: Writer) -> None:
    writer.write("x" * LIMIT)
    writer.runs = False
    await writer.rotation().look()
    assert list(writer.files()) == ["0.log"]
    writer.close()


async def test_only_the_last_attempt_is_rotated(writer: Writer) -> None:
    writer.write("x" * LIMIT)
    (writer.directory / "1.log").write_text("small")
    await writer.rotation().look()
    assert writer.listed == 0
    writer.close()


async def test_failed_reopen_restores_the_log(writer: Writer, caplog: pytest.LogCaptureFixture) -> None:
    writer.write("x" * LIMIT)
    writer.broken = Transient("not now")
    await writer.rotation().look()
    assert list(writer.files()) == ["0.log"]
    assert "retries it later" in caplog.text
    writer.broken = None
    await writer.clock.advance(10)
    await writer.rotation().look()
    assert len(writer.files()) == 2
    writer.close()


async def test_cancelled_rotation_restores_the_log(writer: Writer) -> None:
    writer.write("x" * LIMIT)
    writer.hold = asyncio.Event()
    task = asyncio.create_task(writer.rotation().look())
    await writer.asked.wait()
    assert not writer.path.exists()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert list(writer.files()) == ["0.log"]
    writer.close()


async def test_rotation_interrupted_by_a_kill_is_finished(writer: Writer) -> None:
    writer.write("before")
    writer.path.rename(writer.directory / "0.log.20260102-030405")
    await writer.rotation().look()
    writer.write("after")
    assert writer.files()["0.log"] == "after"
    assert writer.files()["0.log.20260102-030405.gz"] == "before"
    writer.close()


async def test_links_and_foreign_directories_are_passed_over(writer: Writer, tmp_path: Path) -> None:
    big = tmp_path / "big"
    big.write_text("x" * LIMIT)
    writer.path.unlink()
    writer.path.symlink_to(big)
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "default_other_u2").symlink_to(writer.directory.parent)
    await writer.rotation().look()
    assert writer.listed == 0
    writer.close()


async def test_rotation_runs_at_intervals_and_can_be_off(writer: Writer) -> None:
    rotation = writer.rotation(max_size=-1)
    writer.write("x" * LIMIT)
    task = asyncio.create_task(rotation.run())
    await writer.clock.settle()
    await writer.clock.advance(100)
    assert not writer.asked.is_set()
    rotation.reconfigure(RotationConfig(writer.root, Bytes(LIMIT), 3, workers=2))
    await writer.clock.advance(10)
    await writer.asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    writer.close()


async def test_log_that_cannot_be_rotated_delays_no_other(
    writer: Writer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever is wrong with one log, the others are rotated, and it is told once."""
    bad = tmp_path / "default_bad_u1" / "app"
    bad.mkdir(parents=True)
    (bad / "0.log").write_text("x" * LIMIT)
    writer.write("x" * LIMIT)
    rotation = writer.rotation()

    def fail(place: LogPlace, max_files: int) -> None:
        if place.pod == "default_bad_u1":
            raise ValueError("no error that anyone foresaw")

    before = item_failures()["log-rotation.logs"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_files, "tidy", fail)
        for _ in range(2):
            await rotation.look()
    assert len(writer.files()) == 2
    assert [getattr(r, "item", "") for r in caplog.records if r.levelname == "ERROR"] == [str(bad / "0.log")]
    assert item_failures()["log-rotation.logs"] > before
    writer.close()


async def test_unreadable_pod_directory_delays_no_other_log(writer: Writer, caplog: pytest.LogCaptureFixture) -> None:
    (writer.root / "default_bad_u2").mkdir()
    writer.write("x" * LIMIT)

    def fail(above: int, name: str) -> AbstractContextManager[int]:
        if name == "default_bad_u2":
            raise OSError(errno.EIO, "input/output error")
        return directory_at(above, name)

    rotation = writer.rotation()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_files, "directory_at", fail)
        for _ in range(2):
            await rotation.look()
    assert len(writer.files()) == 2
    assert [getattr(r, "item", "") for r in caplog.records if r.levelname == "WARNING"] == ["default_bad_u2"]
    writer.close()


async def test_survey_that_hangs_delays_no_rotation(writer: Writer) -> None:
    """A directory may be a mount whose server is away; each pod's is read by a thread of its own then."""
    rotation, goes_on, surveys = writer.rotation(), threading.Event(), 0

    def hang(config: RotationConfig, pods: Sequence[str]) -> list[str]:
        nonlocal surveys
        surveys += 1
        goes_on.wait()
        return []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_files, "worth_a_look", hang)
        patch.setattr(log_rotation, "_SURVEY_SECONDS", 0.05)
        for number in (2, 3):
            writer.write("x" * LIMIT)
            await rotation.look()
            assert len(writer.files()) == number
        goes_on.set()
        await until(lambda: "logs-survey" not in {each.owner for each in blocking.hung()})
    assert surveys == 1, "a second one began while the first one hung"
    writer.close()


async def test_pods_without_long_logs_are_surveyed_together(writer: Writer) -> None:
    for number in range(20):
        small = writer.root / f"default_small_u{number + 2}" / "app" / "0.log"
        small.parent.mkdir(parents=True)
        small.touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_files, "directory_at", opened := Mock(side_effect=directory_at))
        with recorded_calls(patch) as calls:
            await writer.rotation().look()
    pods = [call.args[1] for call in opened.call_args_list if "_" in call.args[1]]
    assert len(pods) == len(set(pods)) == 21
    assert calls == ["logs", "logs-survey"]
    writer.close()


async def test_rotation_without_logs_asks_the_runtime_nothing(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "logs")
    writer.close()
    await LogRotation(cri=writer, config=RotationConfig(tmp_path / "absent"), clock=writer.clock).look()
    assert writer.listed == 0
