"""Reloads the configuration: on SIGHUP, when its files have changed, and by a check of the files every 20 s.

The new configuration is checked as a whole, and all components make their settings of it, before the first one gets
them. So an error refuses all of it, and the agent goes on with what it has.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from msgspec.structs import replace

from pykubelet.base.backoff import Backoff
from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.concurrency.wakeup import Wakeup
from pykubelet.base.errors import Invalid, PykubeletError, Transient
from pykubelet.base.units import Seconds
from pykubelet.kubelet.config import KubeletConfiguration, Settings
from pykubelet.kubelet.config.live_settings import LivePart, LiveSettings
from pykubelet.kubelet.config.load import check_configuration
from pykubelet.kubelet.config.plan.reload_plan import ConfigView, ReloadPlan, field_views, plan_reload
from pykubelet.kubelet.reload.config_input import ConfigInput, Stamp
from pykubelet.kubelet.reload.config_watch import watch
from pykubelet.kubelet.reload.plan.settling import FileChange, SettlingChanges
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.reports.events import NORMAL, WARNING, Reason

_log = logging.getLogger(__name__)
_OWNER: Final = "configuration"
CHECK_SECONDS: Final[Seconds] = 20.0
"""Interval of the checks that find changes without inotify."""
_RETRY: Final[Seconds] = 1.0
_LONGEST_RETRY: Final[Seconds] = 60.0
_PAUSE: Final[Seconds] = 0.5
"""Shortest time between two reloads, however many requests come."""
_MOST_TEXT: Final = 900
"""Characters of an error in an event, whose message the API server limits to 1024."""

APPLIED: Final = "applied"
UNCHANGED: Final = "unchanged"
REFUSED: Final = "refused"


class ReloadMetrics(Protocol):
    """Metrics of reloads (implemented in ``report/metrics``)."""

    def reloaded(self, result: str, *, awaiting_restart: int) -> None:
        """Count a reload; ``awaiting_restart``: the number of fields whose new value needs a restart."""


class ConfigReloader:
    """Applies changes of the configuration to the components that take them."""

    def __init__(
        self,
        *,
        given: ConfigInput,
        live: LiveSettings,
        parts: Sequence[LivePart[Any]],
        check: Callable[[Settings], None],
        telemetry: Telemetry[ReloadMetrics],
    ) -> None:
        """``live``: the settings that the agent has started with; ``parts``: what takes new ones. ``check`` raises
        Invalid for settings with which the agent would not start."""
        self._given = given
        self._live = live
        self._parts = parts
        self._check = check
        self._telemetry = telemetry
        clock = telemetry.clock
        self._configured = given.started
        self._stamp: Stamp = given.stamp
        self._read_at = clock.now()
        self._error = ""
        self._error_at: Seconds = 0.0
        self._restart: tuple[str, ...] = ()
        self._settling = SettlingChanges()
        self._requested = False
        self._retry_at: Seconds = math.inf
        self._retried = ""
        """The reason why the files cannot be read for the moment: the log names it once."""
        self._wakeup = Wakeup(clock)
        self._guard = Guard("configuration.reloads", clock.monotonic)
        self._watches = Guard("configuration.watch", clock.monotonic)
        self._applied = Guard("configuration.components", clock.monotonic)
        given.requested.subscribe(self.request)

    def request(self) -> None:
        """Reload soon, whether the files have changed or not."""
        self._requested = True
        self._retry_at = -math.inf
        self._wakeup.wake()

    def note(self, name: str, change: FileChange) -> None:
        """Record that a file may have changed."""
        self._settling.note(name, change, self._telemetry.clock.monotonic())
        self._wakeup.wake()

    async def run(self) -> None:
        """Watch the files, and reload after each change and request, until cancelled."""
        async with asyncio.TaskGroup() as group:
            if self._given.paths:
                group.create_task(self._follow(), name="configuration-watch")
            group.create_task(self._reload_when_due(), name="configuration-reloads")

    async def _follow(self) -> None:
        clock, backoff = self._telemetry.clock, Backoff(_RETRY, _LONGEST_RETRY)
        while True:
            with self._watches.item("files") as attempt:
                await watch(self._given.file, self._given.directory, self.note)
            if attempt.error is None:
                backoff.reset("watch")
            else:  # meanwhile, changes are found by the periodic check
                await clock.sleep(backoff.next("watch", clock.monotonic()))

    async def _reload_when_due(self) -> None:
        clock = self._telemetry.clock
        check_at = clock.monotonic() if self._given.paths else math.inf
        not_before = -math.inf
        while True:
            self._wakeup.clear()
            due = max(min(check_at, self._settling.due(), self._retry_at), not_before)
            wait = due - clock.monotonic()
            if wait > 0:
                await self._wakeup.sleep(None if wait == math.inf else wait)
                continue
            with self._guard.item("reload"):
                await self.check()
            not_before = clock.monotonic() + _PAUSE
            if self._given.paths:
                check_at = clock.monotonic() + CHECK_SECONDS

    async def check(self) -> None:
        """Reload if the files have changed since they were last read, or if it was requested."""
        clock = self._telemetry.clock
        requested, self._requested = self._requested, False
        # An unfinished file is left alone by the periodic check, too.
        if not requested and self._settling.due() < math.inf and self._settling.due() > clock.monotonic():
            return
        self._settling.clear()
        self._retry_at = math.inf
        stamp = await blocking.call(_OWNER, self._given.stamp_now)
        if requested or stamp != self._stamp:
            await self._reload(stamp)

    async def _reload(self, stamp: Stamp) -> None:
        notifier = self._given.notifier
        notifier.reloading(self._telemetry.clock.monotonic())
        try:
            await self._read_and_apply()
        except Transient as error:
            self._retry_at = self._telemetry.clock.monotonic() + _RETRY
            self._requested = True
            if str(error) != self._retried:
                self._retried = str(error)
                _log.info("configuration not read: retrying", extra={"error": self._retried})
        except PykubeletError as error:
            self._stamp, self._retried = stamp, ""  # the same files are not read again
            self._refuse(str(error))
        finally:
            notifier.reloaded(f"Serving; configuration refused: {self._error}" if self._error else "Serving")

    async def _read_and_apply(self) -> None:
        config, stamp = await blocking.call(_OWNER, self._given.read_whole)
        settings = self._live.current()
        plan = plan_reload(
            started=self._given.started,
            in_force=settings.config,
            wanted=config,
            cluster=settings.cluster is not None,
        )
        changes = await blocking.call(_OWNER, self._prepared, config, plan)
        for number, change in enumerate(changes):
            # A defect in one component must not leave the others with the former configuration.
            with self._applied.item(str(number)):
                change()
        was_refused, news = bool(self._error), plan.restart != self._restart
        self._live.reconfigure(replace(settings, config=plan.config))
        self._configured, self._stamp, self._restart = config, stamp, plan.restart
        self._error, self._error_at, self._read_at = "", 0.0, self._telemetry.clock.now()
        self._retried = ""
        self._tell(plan, news=news or was_refused)

    def _prepared(self, wanted: KubeletConfiguration, plan: ReloadPlan) -> list[Callable[[], None]]:
        """Make the settings of all components that take a changed field; return what gives them to the components."""
        settings = replace(self._live.current(), config=plan.config)
        try:
            self._check(replace(settings, config=wanted))
            # Fields that wait for a restart keep their values: the rest has to be valid beside them.
            check_configuration(plan.config)
            changes = [part.prepare(settings) for part in self._parts if part.fields & plan.live]
        except Invalid as error:
            raise self._given.located(error) from error
        if "logging" in plan.live:
            changes.append(lambda: self._given.set_up_log(plan.config))
        return changes

    def _tell(self, plan: ReloadPlan, *, news: bool) -> None:
        changed = bool(plan.live) or news
        self._telemetry.metrics.reloaded(APPLIED if changed else UNCHANGED, awaiting_restart=len(plan.restart))
        fields = {"applied": ", ".join(sorted(plan.live)), "needs_restart": ", ".join(plan.restart)}
        _log.info("configuration reloaded", extra=fields)
        if plan.ignored:
            _log.warning("configuration fields without effect", extra={"fields": ", ".join(plan.ignored)})
        if changed:
            message = f"Configuration reloaded: {plan.message}"
            self._telemetry.events.event(None, NORMAL, Reason.KUBELET_CONFIG_CHANGED, message[:_MOST_TEXT])

    def _refuse(self, error: str) -> None:
        self._telemetry.metrics.reloaded(REFUSED, awaiting_restart=len(self._restart))
        _log.error("configuration refused: the agent keeps the one it has", extra={"error": error})
        message = f"Configuration refused, the former one stays in force: {error}"
        self._telemetry.events.event(None, WARNING, Reason.KUBELET_CONFIG_REFUSED, message[:_MOST_TEXT])
        self._error, self._error_at = error, self._telemetry.clock.now()

    def view(self) -> ConfigView:
        """Return the state of each field."""
        settings = self._live.current()
        states = field_views(
            started=self._given.started,
            in_force=settings.config,
            configured=self._configured,
            cluster=settings.cluster is not None,
        )
        return ConfigView(
            files=tuple(map(str, self._given.paths)),
            read_at=self._read_at,
            error=self._error,
            error_at=self._error_at,
            restart=self._restart,
            fields=tuple(states),
        )
