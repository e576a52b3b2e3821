"""Reloads of the server's configuration: what is applied, refused, and noticed."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import asyncinotify
import pytest

from pykubelet.base.clock import SystemClock, Timer
from pykubelet.base.errors import Invalid
from pykubelet.base.files.path_watch import PathWatch
from pykubelet.criserver.config import Settings, load_settings
from pykubelet.criserver.reload import config_reloader
from pykubelet.criserver.reload.config_reloader import ConfigInput, ConfigReloader
from pykubelet.criserver.reload.config_watch import Stamps, file_watch, stamps_of
from pykubelet.testing.limits import no_descriptors
from pykubelet.testing.wait import until

RUNC = '[handlers.runc]\npath = "runc"\n'


class Part:
    """Takes settings, unless it refuses a handler."""

    def __init__(self) -> None:
        self.given: list[Settings] = []
        self.refused = ""

    def prepare(self, settings: Settings) -> Callable[[], None]:
        if self.refused in settings.handlers:
            raise Invalid(f"handler {self.refused} is refused")
        return partial(self.given.append, settings)


class Rig:
    def __init__(self, file: Path) -> None:
        self.file = file
        self.parts = (Part(), Part())
        self.requests = 0
        stamps = stamps_of([file])
        self.given = ConfigInput(
            read=partial(load_settings, file), started=load_settings(file), stamps=stamps, file=file
        )
        self.reloader = ConfigReloader(
            given=self.given, parts=self.parts, requested=(self._requested,), clock=SystemClock()
        )

    async def _requested(self) -> None:
        self.requests += 1

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.reloader.run(), name="reloads")
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    monkeypatch.setattr(config_reloader, "SETTLE_SECONDS", 0.01)
    file = tmp_path / "criserver.toml"
    file.write_text(RUNC)
    return Rig(file)


def handlers(rig: Rig) -> list[str]:
    return sorted(rig.reloader.state().settings.handlers)


async def test_changed_file_reaches_all_parts(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with rig.running():
        rig.file.write_text(f'conmon = "/other"\n{RUNC}[handlers.new]\npath = "crun"\n')
        await until(lambda: all(part.given for part in rig.parts))
    assert handlers(rig) == ["new", "runc"]
    assert rig.reloader.state().restart == ("conmon",)
    assert rig.reloader.state().settings.conmon == "conmon"
    assert "configuration reloaded" in caplog.text and rig.requests == 0


async def test_file_that_changes_all_the_time_keeps_no_request_waiting(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = 0

    def changing(paths: Iterable[Path]) -> Stamps:
        nonlocal times
        times += 1
        return {path: (*stamp[:3], stamp[3] + times) for path, stamp in stamps_of(paths).items()}

    monkeypatch.setattr(config_reloader, "stamps_of", changing)
    rig.file.write_text(f'{RUNC}[handlers.new]\npath = "crun"\n')
    async with rig.running():
        await until(lambda: handlers(rig) == ["new", "runc"])
        rig.reloader.request()
        await until(lambda: rig.requests > 0)


async def test_file_of_a_replaced_link_is_read(rig: Rig, tmp_path: Path) -> None:
    for name, text in (("a", RUNC), ("b", f'{RUNC}[handlers.new]\npath = "crun"\n')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "c.toml").write_text(text)
    (tmp_path / "..data").symlink_to("a")
    (tmp_path / "c.toml").symlink_to("..data/c.toml")
    rig = Rig(tmp_path / "c.toml")
    async with rig.running():
        (tmp_path / "..tmp").symlink_to("b")
        (tmp_path / "..tmp").rename(tmp_path / "..data")
        await until(lambda: handlers(rig) == ["new", "runc"])


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[", "not TOML"),
        ('default_handler = "absent"\n', "default_handler 'absent' is not among the handlers"),
        (f'{RUNC}[handlers.bad]\npath = "x"\n', "handler bad is refused"),
    ],
)
async def test_refused_file_changes_nothing_and_is_named(
    rig: Rig, caplog: pytest.LogCaptureFixture, text: str, error: str
) -> None:
    rig.parts[1].refused = "bad"
    async with rig.running():
        rig.file.write_text(text)
        await until(lambda: bool(rig.reloader.state().error))
        state = rig.reloader.state()
        assert error in state.error and "the former one stays in force" in caplog.text
        assert [getattr(record, "error", "") for record in caplog.records] == [state.error]
        assert handlers(rig) == ["runc"] and not any(part.given for part in rig.parts)
        rig.file.write_text(f"{RUNC}\n")
        await until(lambda: not rig.reloader.state().error)
    assert all(part.given for part in rig.parts)


async def test_request_reads_the_file_though_it_has_not_changed(rig: Rig) -> None:
    async with rig.running():
        rig.given.requested()
        await until(lambda: rig.requests == 1)
    assert all(part.given for part in rig.parts)


async def test_base_specification_of_a_handler_is_watched_too(rig: Rig, tmp_path: Path) -> None:
    base = tmp_path / "elsewhere" / "base.json"
    base.parent.mkdir()
    base.write_text("{}")
    async with rig.running():
        rig.file.write_text(f'{RUNC}base_runtime_spec = "{base}"\n')
        await until(lambda: len(rig.parts[0].given) == 1)
        base.write_text('{"hooks": {}}')
        await until(lambda: len(rig.parts[0].given) == 2)
        base.write_text('{"hooks": {"prestart": []}}')
        await until(lambda: len(rig.parts[0].given) == 3)


async def test_change_is_found_without_inotify(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted() -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(asyncinotify, "Inotify", exhausted)
    monkeypatch.setattr(config_reloader, "CHECK_SECONDS", 0.01)
    async with rig.running():
        rig.file.write_text(f'{RUNC}[handlers.new]\npath = "crun"\n')
        await until(lambda: handlers(rig) == ["new", "runc"])


async def test_watch_is_kept_between_the_periodic_checks(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    watches, checks = 0, 0

    def watch(files: Iterable[Path]) -> PathWatch:
        nonlocal watches
        watches += 1
        return file_watch(files)

    def stamps(paths: Iterable[Path]) -> Stamps:
        nonlocal checks
        checks += 1
        return stamps_of(paths)

    monkeypatch.setattr(config_reloader, "file_watch", watch)
    monkeypatch.setattr(config_reloader, "stamps_of", stamps)
    monkeypatch.setattr(config_reloader, "WATCHED_SECONDS", 0.01)
    async with rig.running():
        await until(lambda: checks > 5)
        assert watches == 1
        monkeypatch.setattr(config_reloader, "WATCHED_SECONDS", 1000.0)
        rig.file.write_text(f'{RUNC}[handlers.new]\npath = "crun"\n')
        await until(lambda: handlers(rig) == ["new", "runc"])


async def test_watch_is_made_again_when_it_has_missed_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory on the way to the file was renamed, and another has its place; the watch was of the former one."""
    waits, call_later = [], SystemClock.call_later

    def recorded(clock: SystemClock, seconds: float, callback: Callable[[], object]) -> Timer:
        waits.append(seconds)
        return call_later(clock, seconds, callback)

    for version, text in (("1", RUNC), ("2", f'{RUNC}[handlers.new]\npath = "crun"\n')):
        (tmp_path / version / "d").mkdir(parents=True)
        (tmp_path / version / "d" / "criserver.toml").write_text(text)
    (tmp_path / "1").rename(tmp_path / "present")
    monkeypatch.setattr(SystemClock, "call_later", recorded)
    monkeypatch.setattr(config_reloader, "SETTLE_SECONDS", 0.01)
    monkeypatch.setattr(config_reloader, "WATCHED_SECONDS", 0.02)
    rig = Rig(tmp_path / "present" / "d" / "criserver.toml")
    async with rig.running():
        await until(lambda: 0.02 in waits)
        (tmp_path / "present").rename(tmp_path / "former")
        (tmp_path / "2").rename(tmp_path / "present")
        await until(lambda: handlers(rig) == ["new", "runc"])
        monkeypatch.setattr(config_reloader, "WATCHED_SECONDS", 1000.0)
        await until(lambda: waits[-1] == 1000.0)
        rig.file.write_text(f'{RUNC}[handlers.newer]\npath = "crun"\n')
        await until(lambda: handlers(rig) == ["newer", "runc"])


@pytest.mark.parametrize(("path", "link", "target"), [("present", "present", "2/d"), ("present/d", "present", "2")])
async def test_link_that_leads_elsewhere_is_noticed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, link: str, target: str
) -> None:
    for version, text in (("1", RUNC), ("2", f'{RUNC}[handlers.new]\npath = "crun"\n')):
        (tmp_path / version / "d").mkdir(parents=True)
        (tmp_path / version / "d" / "criserver.toml").write_text(text)
    (tmp_path / link).symlink_to(target.replace("2", "1"))
    monkeypatch.setattr(config_reloader, "SETTLE_SECONDS", 0.01)
    monkeypatch.setattr(config_reloader, "WATCHED_SECONDS", 1000.0)
    rig = Rig(tmp_path / path / "criserver.toml")
    async with rig.running():
        await until(lambda: rig.reloader._wakeup._sleeps)
        (tmp_path / "next").symlink_to(target)
        (tmp_path / "next").rename(tmp_path / link)
        await until(lambda: handlers(rig) == ["new", "runc"])
        rig.file.write_text(f'{RUNC}[handlers.newer]\npath = "crun"\n')
        await until(lambda: handlers(rig) == ["newer", "runc"])


async def test_reload_that_raises_is_followed_by_others(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("injected")

    calls: list[Callable[[], None]] = [broken]
    monkeypatch.setattr(rig.parts[0], "prepare", lambda settings: calls.pop() if calls else (lambda: None))
    async with rig.running():
        rig.given.requested()
        await until(lambda: not calls)
        rig.given.requested()
        await until(lambda: bool(rig.parts[1].given))


async def test_change_that_cannot_be_read_for_the_moment_is_read_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(config_reloader, "RETRY_SECONDS", 0.01)
    async with rig.running():
        file = rig.file.open("w")
        with no_descriptors(), file:
            file.write(f'{RUNC}[handlers.new]\npath = "crun"\n')
            file.flush()
            await until(lambda: bool(rig.reloader.state().error))
        await until(lambda: handlers(rig) == ["new", "runc"])
    assert not rig.reloader.state().error


async def test_change_is_read_again_after_an_unexpected_error(rig: Rig) -> None:
    defects = [OSError(24, "Too many open files")]

    def defective(settings: Settings) -> Callable[[], None]:
        if defects:
            raise defects.pop()
        return lambda: None

    rig.parts[0].prepare = defective  # type: ignore[method-assign]
    async with rig.running():
        rig.file.write_text(f'{RUNC}[handlers.new]\npath = "crun"\n')
        await until(lambda: handlers(rig) == ["new", "runc"])
    assert not defects
