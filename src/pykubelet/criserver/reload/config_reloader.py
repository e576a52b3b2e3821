"""Reloads the configuration of the running server.

A new configuration is read and checked as a whole, and all parts make what they need of it, before the first of them
uses it. So an error refuses all of it, and the server goes on with the former one.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct, field

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.callbacks import Callbacks
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.concurrency.wakeup import Wakeup
from pykubelet.base.errors import PykubeletError, Transient
from pykubelet.base.files.path_watch import PathWatch
from pykubelet.base.units import Seconds
from pykubelet.criserver.config import Settings
from pykubelet.criserver.reload.config_watch import Stamps, file_watch, stamps_of
from pykubelet.criserver.reload.plan.reload_plan import plan_reload

_log = logging.getLogger(__name__)
_OWNER: Final = "configuration"
CHECK_SECONDS: Final[Seconds] = 20.0
"""Interval of the checks that find changes without inotify."""
WATCHED_SECONDS: Final[Seconds] = 60.0
"""Interval of the checks that find changes of which inotify tells nothing, such as other clients' of an NFS server."""
SETTLE_SECONDS: Final[Seconds] = 0.3
"""A file counts as complete when it has not changed for this time."""
RETRY_SECONDS: Final[Seconds] = 1.0
"""Interval of the attempts to read a file that cannot be read for the moment."""
_MOST_SETTLING: Final = 30
"""A file that changes all the time is read nevertheless after so many times: it keeps no request waiting."""


class ConfigInput(Struct, frozen=True, kw_only=True):
    """The source of the configuration, and its values at the start."""

    read: Callable[[], Settings]
    """Reads the file and lays the flags over it; Invalid: it cannot be used. Blocks."""
    started: Settings
    """The settings that were read at the start."""
    stamps: Stamps = field(default_factory=dict)
    """The stamp of the file before that read."""
    file: Path | None = None
    requested: Callbacks[[]] = field(default_factory=Callbacks)
    """Calls: SIGHUP has come."""

    @classmethod
    def fixed(cls, settings: Settings) -> "ConfigInput":
        """The input of a server without a file."""
        return cls(read=lambda: settings, started=settings)


class LivePart(Protocol):
    """A part of the server that takes new settings."""

    def prepare(self, settings: Settings) -> Callable[[], None]:
        """Make what new settings need; return what begins to use it. Raises PykubeletError: refused. Blocks."""
        ...


class ConfigState(Struct, frozen=True, kw_only=True):
    """The state of the configuration, for the status."""

    settings: Settings
    """In force."""
    file: str
    read_at: Seconds
    error: str
    """The reason why the present file was refused; empty if it was not."""
    restart: tuple[str, ...]
    """Fields whose new value waits for a restart."""


class ConfigReloader:
    """Applies changes of the configuration to the parts that take them."""

    def __init__(
        self,
        *,
        given: ConfigInput,
        parts: Sequence[LivePart],
        requested: Sequence[Callable[[], Awaitable[None]]],
        clock: Clock,
    ) -> None:
        """``requested``: what else reads its files at SIGHUP."""
        self._given = given
        self._parts = parts
        self._on_request = requested
        self._clock = clock
        self._settings = given.started
        self._stamps = given.stamps
        self._read_at = clock.now()
        self._error = ""
        self._restart: tuple[str, ...] = ()
        self._requested = False
        self._unread = False
        """A change has been noticed that is neither in force nor refused."""
        self._wakeup = Wakeup(clock)
        given.requested.subscribe(self.request)

    def request(self) -> None:
        """Reload soon, whether the files have changed or not."""
        self._requested = True
        self._wakeup.wake()

    def state(self) -> ConfigState:
        """Return what is in force."""
        return ConfigState(
            settings=self._settings,
            file=str(self._given.file or ""),
            read_at=self._read_at,
            error=self._error,
            restart=self._restart,
        )

    async def run(self) -> None:
        """Watch the files, and reload after each change and request, until cancelled."""
        guard = Guard("criserver.configuration", self._clock.monotonic)
        while True:
            with guard.item("reload"):
                await self._check_and_wait()
            if delay := guard.delay("reload"):
                await self._clock.sleep(delay)

    async def _check_and_wait(self) -> None:
        async with AsyncExitStack() as stack:
            watch: PathWatch | None = None
            paths = self._paths()
            if paths:
                with suppress(Transient):  # changes are found by the periodic check
                    watch = await stack.enter_async_context(file_watch(paths))
            checked = False
            while True:
                self._wakeup.clear()
                missed = not self._requested and await self.check() and checked
                # The watch has missed a change if a directory on the way to a file was renamed.
                if missed or self._requested or self._paths() != paths:
                    break
                checked = True
                if await self._wait(watch, self._longest_wait(paths, watch)) or watch is None:
                    break
        if self._requested:
            await self.check()

    def _longest_wait(self, paths: Sequence[Path], watch: PathWatch | None) -> Seconds | None:
        if self._unread:
            return RETRY_SECONDS
        if not paths:
            return None
        return CHECK_SECONDS if watch is None else WATCHED_SECONDS

    async def _wait(self, watch: PathWatch | None, longest: Seconds | None) -> bool:
        """Wait for a request, for a change, or until the next check is due; whether the watch has noticed a change."""
        if watch is None:
            await self._wakeup.sleep(longest)
            return False
        async with asyncio.TaskGroup() as group:
            changed = group.create_task(watch.next(), name="configuration-change")
            changed.add_done_callback(lambda _: self._wakeup.wake())
            await self._wakeup.sleep(longest)
            changed.cancel()
        return not changed.cancelled()

    async def check(self) -> bool:
        """Reload if the files have changed since they were last read, or if it was requested; whether they have."""
        requested, self._requested = self._requested, False
        changed = await self._changed()
        if not changed and not requested and not self._unread:
            return False
        self._unread = True
        try:
            await self._reload()
            self._unread = False
        except Transient as error:
            if self._error != str(error):
                self._error = str(error)
                _log.warning("configuration not read: retrying", extra={"error": self._error})
        except PykubeletError as error:
            self._unread, self._error = False, str(error)
            _log.error("configuration refused: the former one stays in force", extra={"error": self._error})
        if requested:
            for read in self._on_request:
                await read()
        return changed

    async def _changed(self) -> bool:
        """Whether a file has changed since the last call; waits until it is complete."""
        stamps, former = await blocking.call(_OWNER, stamps_of, self._paths()), self._stamps
        changed = any(stamps[path] != former.get(path, stamps[path]) for path in stamps)
        for _ in range(_MOST_SETTLING if changed else 0):
            await self._clock.sleep(SETTLE_SECONDS)
            last, stamps = stamps, await blocking.call(_OWNER, stamps_of, self._paths())
            if stamps == last:
                break
        self._stamps = stamps
        return changed

    async def _reload(self) -> None:
        wanted = await blocking.call(_OWNER, self._given.read)
        plan = plan_reload(self._settings, wanted)
        named = await blocking.call(_OWNER, stamps_of, self._paths(plan.settings))
        self._stamps = {**named, **self._stamps}
        changes = await blocking.call(_OWNER, self._prepare, plan.settings)
        for change in changes:
            change()
        self._settings, self._error, self._read_at = plan.settings, "", self._clock.now()
        self._restart = plan.restart
        fields = {"applied": ", ".join(plan.live), "needs_restart": ", ".join(plan.restart)}
        _log.info("configuration reloaded", extra=fields)

    def _prepare(self, settings: Settings) -> list[Callable[[], None]]:
        return [part.prepare(settings) for part in self._parts]

    def _paths(self, settings: Settings | None = None) -> list[Path]:
        """The configuration file, and the files that the handlers of these settings (default: in force) name."""
        handlers = (settings or self._settings).handlers
        bases = [each.base_runtime_spec for each in handlers.values() if each.base_runtime_spec]
        return [*([self._given.file] if self._given.file else []), *bases]
