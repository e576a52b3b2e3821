"""Reloads of the configuration with files, and components that record what they get."""

import asyncio
import json
import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.base.daemon.notify import Notifier
from pykubelet.base.errors import Invalid
from pykubelet.kubelet.config import KubeletConfiguration, Settings, load, load_configuration
from pykubelet.kubelet.config.live_settings import LivePart, LiveSettings
from pykubelet.kubelet.config.plan.reload_plan import FieldView
from pykubelet.kubelet.reload import config_reloader
from pykubelet.kubelet.reload.config_input import ConfigInput, stamp_of
from pykubelet.kubelet.reload.config_reloader import CHECK_SECONDS, ConfigReloader
from pykubelet.kubelet.reload.plan.settling import FileChange
from pykubelet.kubelet.types.ids import PodRef
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.limits import no_descriptors
from pykubelet.testing.telemetry import telemetry
from pykubelet.testing.wait import until


@dataclass
class ReloadRecorder:
    """Events and metrics."""

    events: list[tuple[str, str]] = field(default_factory=list)
    results: list[tuple[str, int]] = field(default_factory=list)

    def event(
        self, pod: PodRef | None, event_type: str, reason: str, message: str, *, container: str = "", **more: object
    ) -> None:
        self.events.append((reason, message))

    def reloaded(self, result: str, *, awaiting_restart: int) -> None:
        self.results.append((result, awaiting_restart))


class Rig:
    """A reloader with a file, a drop-in directory, and two components."""

    def __init__(self, home: Path) -> None:
        self.file, self.directory = home / "config.json", home / "conf.d"
        self.directory.mkdir()
        self.write()
        self.clock, self.seen = VirtualClock(), ReloadRecorder()
        self.broken = False
        self.pods: list[int] = []
        self.files: list[int] = []
        self.levels: list[object] = []
        config = self.read()
        self.live = LiveSettings(Settings("n", config, "unix:///none"))
        self.given = ConfigInput(
            read=self.read,
            started=config,
            stamp=stamp_of(self.file, self.directory),
            file=self.file,
            directory=self.directory,
            set_up_log=lambda config: self.levels.append(config.logging),
        )
        self.reloader = self.made()

    def made(self) -> ConfigReloader:
        return ConfigReloader(
            given=self.given,
            live=self.live,
            parts=(
                LivePart(fields=frozenset(("maxPods",)), convert=lambda s: s.config.max_pods, reconfigure=self._take),
                LivePart(fields=frozenset(("containerLogMaxFiles",)), convert=_files, reconfigure=self.files.append),
            ),
            check=_check,
            telemetry=telemetry(self.clock, self.seen, events=self.seen),
        )

    def _take(self, most: int) -> None:
        if self.broken:
            raise ValueError("a defect")
        self.pods.append(most)

    def read(self) -> KubeletConfiguration:
        return load_configuration(self.file, self.directory)

    def write(self, path: Path | None = None, **fields: object) -> None:
        common = {"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1"}
        temporary = self.file.with_suffix(".new")
        temporary.write_text(json.dumps({**common, **fields}))
        temporary.rename(path or self.file)

    def field(self, name: str) -> FieldView:
        (found,) = (each for each in self.reloader.view().fields if each.field == name)
        return found


def _check(settings: Settings) -> None:
    if settings.config.read_only_port:
        raise Invalid("readOnlyPort: without it, the agent would start")


def _files(settings: Settings) -> int:
    if settings.config.container_log_max_files > 100:
        raise Invalid("containerLogMaxFiles: too many for this component")
    return settings.config.container_log_max_files


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


async def test_changed_file_is_given_to_the_components_that_take_its_fields(rig: Rig) -> None:
    rig.write(maxPods=7, port=1)
    await rig.reloader.check()
    assert (rig.pods, rig.files, rig.levels) == ([7], [], [])
    assert rig.live.current().config.max_pods == 7
    assert rig.live.current().config.port == 10250
    assert rig.seen.results == [("applied", 1)]
    assert rig.seen.events == [
        ("KubeletConfigChanged", "Configuration reloaded: maxPods applied; port needs a restart")
    ]
    assert rig.reloader.view().restart == ("port",)
    await rig.reloader.check()
    assert len(rig.seen.results) == 1, "the files have not changed"


async def test_configuration_with_which_the_agent_would_not_start_is_refused_with_the_place(rig: Rig) -> None:
    rig.write(rig.directory / "a.conf", maxPods=3, readOnlyPort=10255)
    await rig.reloader.check()
    place = f"{rig.directory}/a.conf:1:"
    assert rig.reloader.view().error.startswith(place), rig.reloader.view().error
    assert rig.reloader.view().error.endswith(": readOnlyPort: without it, the agent would start")
    rig.write(rig.directory / "a.conf", maxPods=3, containerLogMaxFiles=300)
    await rig.reloader.check()
    assert rig.reloader.view().error.startswith(place)
    assert rig.reloader.view().error.endswith(": containerLogMaxFiles: too many for this component")
    assert (rig.pods, rig.reloader.view().restart) == ([], ())


async def test_drop_in_file_that_comes_and_goes_is_applied(rig: Rig) -> None:
    rig.write(rig.directory / "a.conf", maxPods=3)
    await rig.reloader.check()
    (rig.directory / "a.conf").unlink()
    await rig.reloader.check()
    assert rig.pods == [3, 110]


async def test_invalid_file_is_refused_as_a_whole_until_it_is_repaired(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.write(rig.directory / "a.conf", maxPods=3, imageGCHighThresholdPercent=200)
    with caplog.at_level(logging.INFO):
        await rig.reloader.check()
        await rig.reloader.check()
    view = rig.reloader.view()
    assert f"{rig.directory}/a.conf:1:" in view.error and "imageGCHighThresholdPercent: must be" in view.error
    assert view.error_at == rig.clock.now()
    assert (rig.pods, rig.live.current().config.max_pods, rig.field("maxPods").configured) == ([], 110, 110)
    assert rig.seen.results == [("refused", 0)], "the same files are not read twice"
    ((reason, message),) = rig.seen.events
    assert reason == "KubeletConfigRefused" and view.error in message
    assert [r.getMessage() for r in caplog.records] == ["configuration refused: the agent keeps the one it has"]
    (rig.directory / "a.conf").unlink()
    await rig.reloader.check()
    assert (rig.reloader.view().error, rig.reloader.view().error_at) == ("", 0.0)
    assert rig.seen.results[1:] == [("applied", 0)], "the end of an error is news"


async def test_error_of_one_component_keeps_the_others_from_their_values(rig: Rig) -> None:
    rig.write(maxPods=7, containerLogMaxFiles=101)
    await rig.reloader.check()
    assert (rig.pods, rig.files) == ([], [])
    assert rig.reloader.view().error.endswith(": containerLogMaxFiles: too many for this component")


async def test_component_that_fails_to_take_its_value_keeps_no_other_from_it(rig: Rig) -> None:
    rig.broken = True
    rig.write(maxPods=7, containerLogMaxFiles=9)
    await rig.reloader.check()
    assert (rig.pods, rig.files) == ([], [9])
    assert rig.live.current().config.max_pods == 7
    rig.broken = False
    rig.write(maxPods=8, containerLogMaxFiles=9)
    await rig.reloader.check()
    assert rig.pods == [8]


async def test_live_fields_that_do_not_fit_those_that_wait_for_a_restart_are_refused(rig: Rig) -> None:
    """The new file is valid, but only with a value that needs a restart."""
    started = load_configuration(rig.file, None, {"kubeReservedCgroup": "/daemons"})
    rig.given = ConfigInput(
        read=lambda: load_configuration(None, None, {"maxPods": 5}),
        started=started,
        stamp=(),
        file=rig.file,
        set_up_log=lambda _: None,
    )
    broken = load_configuration(None, None, {"port": 1, "readOnlyPort": 2})
    rig.live = LiveSettings(Settings("n", _with(broken, read_only_port=1), "unix:///none"))
    rig.reloader = rig.made()
    await rig.reloader.check()
    assert rig.reloader.view().error == "readOnlyPort: must differ from port"
    assert rig.pods == []


def _with(config: KubeletConfiguration, **fields: Any) -> KubeletConfiguration:
    return replace(config, **fields)


async def test_request_reloads_files_that_seem_unchanged(rig: Rig) -> None:
    rig.given.requested()
    await rig.reloader.check()
    assert (rig.seen.results, rig.seen.events) == ([("unchanged", 0)], [])


async def test_logging_is_given_to_the_log(rig: Rig) -> None:
    rig.write(logging={"verbosity": 5})
    await rig.reloader.check()
    assert rig.levels == [{"verbosity": 5}]


async def test_file_that_changes_while_it_is_read_is_read_again(rig: Rig) -> None:
    def read() -> KubeletConfiguration:
        config = rig.read()
        if config.max_pods == 1:
            rig.write(maxPods=2)
        return config

    rig.given = ConfigInput(
        read=read, started=rig.read(), stamp=(), file=rig.file, directory=rig.directory, set_up_log=lambda _: None
    )
    rig.reloader = rig.made()
    rig.write(maxPods=1)
    await rig.reloader.check()
    assert (rig.pods, rig.seen.results) == ([], [])
    await rig.reloader.check()
    assert rig.pods == [2]


async def test_file_that_cannot_be_read_for_the_moment_is_read_again(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    rig.write(maxPods=77)
    with no_descriptors():
        for _ in range(3):
            await rig.reloader.check()
    assert rig.seen.results == [] and rig.pods == []
    assert [record.message for record in caplog.records] == ["configuration not read: retrying"]
    await rig.reloader.check()
    assert rig.pods == [77] and not rig.reloader.view().error


async def test_systemd_is_notified_of_a_reload(rig: Rig, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.setblocking(False)
        rig.given = ConfigInput(
            **{name: getattr(rig.given, name) for name in ("read", "started", "stamp", "file", "set_up_log")},
            notifier=Notifier(str(tmp_path / "notify")),
        )
        rig.given.notifier.ready()
        assert receiver.recv(200) == b"READY=1\nSTATUS=Serving"
        rig.reloader = rig.made()
        rig.write(maxPods=-1, port=-1)
        await rig.reloader.check()
        before, after = receiver.recv(200).decode().split("\n"), receiver.recv(400).decode().split("\n")
    assert before[:2] == ["RELOADING=1", f"MONOTONIC_USEC={round(rig.clock.monotonic() * 1e6)}"]
    assert after[0] == "READY=1"
    assert after[1].startswith("STATUS=Serving; configuration refused: ") and "port" in after[1]


async def test_drop_in_that_vanishes_between_list_and_read_is_no_error(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, vanishing = load._bytes, rig.directory / "a.conf"

    def late(path: Path) -> bytes:
        if path == vanishing:
            path.unlink()
        return read(path)

    monkeypatch.setattr(load, "_bytes", late)
    rig.write(vanishing, maxPods=3)
    rig.write(maxPods=4)
    await rig.reloader.check()
    assert (rig.reloader.view().error, rig.pods, rig.seen.results) == ("", [], [])
    await rig.reloader.check()
    assert (rig.reloader.view().error, rig.pods) == ("", [4])


async def test_storm_of_requests_reloads_twice_a_second(rig: Rig) -> None:
    async with following(rig):
        await until(lambda: rig.reloader._wakeup._woken is not None)
        for _ in range(200):
            rig.reloader.request()
            await rig.clock.advance(0.01)
    assert 2 <= len(rig.seen.results) <= 5


@asynccontextmanager
async def following(rig: Rig) -> AsyncIterator[None]:
    task = asyncio.create_task(rig.reloader.run())
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_running_reloader_sees_changes_by_inotify(rig: Rig) -> None:
    seen = asyncio.Event()

    def noted(name: str, change: FileChange) -> None:
        note(name, change)
        if name == rig.file.name:
            seen.set()

    note, rig.reloader.note = rig.reloader.note, noted  # type: ignore[method-assign]
    async with following(rig):
        await until(lambda: rig.clock.sleepers)
        await rig.clock.advance(1.0)
        rig.write(maxPods=9)
        await seen.wait()
        await rig.clock.advance(1.0)
        await until(lambda: rig.pods == [9])


async def test_running_reloader_finds_changes_without_inotify(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unavailable(*_: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(config_reloader, "watch", unavailable)
    async with following(rig):
        await rig.clock.advance(1.0)
        rig.write(maxPods=9)
        await rig.clock.advance(CHECK_SECONDS)
        await until(lambda: rig.pods == [9])


async def test_file_that_is_being_written_is_left_alone_by_checks(rig: Rig) -> None:
    rig.write(maxPods=9)
    rig.reloader.note("config.json", FileChange.WRITTEN)
    await rig.reloader.check()
    assert rig.pods == []
    await rig.clock.advance(3)
    await rig.reloader.check()
    assert rig.pods == [9]


async def test_reload_that_raises_is_followed_by_others(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = 0

    async def fail() -> None:
        nonlocal tried
        tried += 1
        raise ValueError("no error that anyone foresaw")

    monkeypatch.setattr(rig.reloader, "_read_and_apply", fail)
    async with following(rig):
        for number in (1, 2, 3):
            rig.reloader.request()
            await rig.clock.advance(1)
            await until(lambda number=number: tried == number)  # type: ignore[misc]


async def test_watch_that_raises_is_begun_again(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = 0

    async def fail(*_: object) -> None:
        nonlocal tried
        tried += 1
        raise ValueError("no error that anyone foresaw")

    monkeypatch.setattr(config_reloader, "watch", fail)
    async with following(rig):
        await rig.clock.advance(300)
        assert tried > 2


def test_stamp_changes_with_each_file(tmp_path: Path) -> None:
    file, directory = tmp_path / "a", tmp_path / "d"
    assert stamp_of(file, directory) == stamp_of(None, directory), "the directory does not exist"
    directory.mkdir()
    stamps = [stamp_of(file, directory)]
    for path in (file, directory / "x.conf", directory / "y.conf"):
        path.write_text("a")
        stamps.append(stamp_of(file, directory))
    os.utime(file, ns=(1, 1))
    stamps.append(stamp_of(file, directory))
    (directory / "y.conf").unlink()
    stamps.append(stamp_of(file, directory))
    assert len(set(stamps)) == len(stamps)
