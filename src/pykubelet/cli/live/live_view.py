"""Runs the live view on a terminal: follows the agent's pods, events and usage, draws, and does what keys say.

The agent is asked for usage once per interval, and tells changes of pods and events by itself. It may go away and come
back. The view ends with ``q``, with a signal, with the terminal, or when ``alive`` says so.
"""

import asyncio
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from pykubelet.base.errors import PykubeletError
from pykubelet.base.units import Seconds
from pykubelet.cli.live.live_api import LiveApi
from pykubelet.cli.live.live_options import LiveOptions
from pykubelet.cli.live.live_terminal import Terminal, entered
from pykubelet.cli.live.log_follower import LogFollower
from pykubelet.cli.live.plan.live_frame import Scene, frame, table_rows
from pykubelet.cli.live.plan.live_model import ContainerEntry, Key, LiveModel, PodEntry
from pykubelet.cli.live.plan.log_frame import log_frame
from pykubelet.cli.live.plan.view_state import Action, LogExtent, Mode, Sort, View, keys, ordered, react
from pykubelet.cli.plan.screen_text import visible

_RETRY_SECONDS: Final[Seconds] = 1.0
_FRAME_SECONDS: Final[Seconds] = 0.04
"""Shortest time between two drawings."""
_NOTICE_SECONDS: Final[Seconds] = 5.0
_FAILURES: Final = (PykubeletError, LookupError, TypeError, ValueError)
"""Errors of the agent, and of answers that are not as expected."""
_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def run_live(options: LiveOptions) -> signal.Signals | None:
    """Show the live view until it ends. Returns the signal that ended it; None: the user or ``alive``."""
    terminal = Terminal()
    return asyncio.run(_run(options, terminal))


async def _run(options: LiveOptions, terminal: Terminal) -> signal.Signals | None:
    async with LiveApi(options.socket) as api:
        view = _LiveView(options, api=api, terminal=terminal)
        with view.handled_signals(), entered(terminal):
            return await view.run()


class _LiveView:
    """One run of the view."""

    def __init__(self, options: LiveOptions, *, api: LiveApi, terminal: Terminal) -> None:
        self._options = options
        self._api = api
        self._terminal = terminal
        self._model = LiveModel(options.namespace, options.name)
        self._changed = asyncio.Event()
        self._view = View(sort=Sort(options.sort_by))
        self._log = self._follower(("", ""))
        self._log_task: asyncio.Task[None] | None = None
        self._group = asyncio.TaskGroup()
        self._ended = asyncio.Event()
        self._signal: signal.Signals | None = None
        self._connected = False
        self._failures: dict[str, str] = {}
        """Error by the source that does not respond."""
        self._lost_at = 0.0
        self._notice = ("", 0.0)
        """A message, and the monotonic time until which it is shown."""

    async def run(self) -> signal.Signals | None:
        """Run until the view ends."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._terminal.input, self._typed)
        try:
            async with self._group as group:
                tasks = [
                    group.create_task(self._follow("/api/v1/pods", self._take_pods, self._take_pod), name="pods"),
                    group.create_task(
                        self._follow("/api/v1/events", self._take_events, self._take_event), name="events"
                    ),
                    group.create_task(self._measure(), name="usage"),
                    group.create_task(self._draw(), name="draw"),
                ]
                await self._ended.wait()
                for task in (*tasks, *([self._log_task] if self._log_task else [])):
                    task.cancel()
        finally:
            loop.remove_reader(self._terminal.input)
        return self._signal

    @contextmanager
    def handled_signals(self) -> Iterator[None]:
        """Handle signals during the block; afterwards they do what they did before."""
        loop = asyncio.get_running_loop()
        actions: dict[signal.Signals, Callable[[], object]] = {
            **{number: lambda number=number: self._end(number) for number in _ENDING},  # type: ignore[misc]
            signal.SIGWINCH: self._changed.set,
            signal.SIGTSTP: self._suspend,
        }
        before = {number: signal.getsignal(number) for number in actions}
        for number, action in actions.items():
            loop.add_signal_handler(number, action)
        try:
            yield
        finally:
            for number, handler in before.items():
                loop.remove_signal_handler(number)
                signal.signal(number, handler)

    def _end(self, number: signal.Signals | None = None) -> None:
        self._signal = self._signal or number
        self._ended.set()

    def _suspend(self) -> None:
        """Give the terminal back to the shell until the user continues this process."""
        self._terminal.leave()
        signal.raise_signal(signal.SIGSTOP)
        self._terminal.enter()
        self._changed.set()

    # -- what the agent says -------------------------------------------------------------------------------------------

    async def _follow(
        self, path: str, replace_all: Callable[[list[Any]], None], change: Callable[[str, Any], None]
    ) -> None:
        """List objects and watch their changes; again when the stream has ended or the agent has been away."""
        while True:
            try:
                answer = await self._api.get(path)
                replace_all(answer["items"])
                self._responds(path)
                async for kind, item in self._api.watch(path, str(answer["metadata"]["resourceVersion"])):
                    change(kind, item)
                    self._changed.set()
            except _FAILURES as error:
                self._fails(path, error)
            await asyncio.sleep(_RETRY_SECONDS)

    async def _measure(self) -> None:
        """Ask for the usage once per interval."""
        while True:
            if not self._options.alive():
                self._end()
            try:
                self._model.add_usage(
                    await self._api.get("/pykubelet/v1/usage", maxAgeSeconds=int(self._options.interval))
                )
                self._responds("usage")
            except _FAILURES as error:
                self._fails("usage", error)
            await asyncio.sleep(self._options.interval)

    def _take_pods(self, items: list[Any]) -> None:
        self._model.replace_pods(items)
        self._connected = True

    def _take_pod(self, kind: str, item: Any) -> None:
        self._model.change_pod(kind, item)

    def _take_events(self, items: list[Any]) -> None:
        self._model.replace_events(items)

    def _take_event(self, kind: str, item: Any) -> None:
        if kind != "DELETED":
            self._model.add_event(item)

    def _fails(self, source: str, error: Exception) -> None:
        if not self._failures:
            self._lost_at = time.monotonic()
        text = str(error) if isinstance(error, PykubeletError) else f"unexpected answer ({error!r})"
        self._failures[source] = visible(text)
        self._changed.set()

    def _responds(self, source: str) -> None:
        if self._failures.pop(source, "") and not self._failures:
            self._say("the agent is back")
        self._changed.set()

    # -- the user ------------------------------------------------------------------------------------------------------

    def _typed(self) -> None:
        data = self._terminal.read()
        if not data:
            self._end(signal.SIGHUP)
        for key in keys(data):
            self._notice = ("", 0.0)
            pods = ordered(self._model.pods, self._view.sort)
            height = self._height()
            page = table_rows(height)
            self._view, action = react(self._view, key, pods, page, self._log.text.extent(height))
            if action is not None:
                self._act(action, pods)
        self._changed.set()

    def _act(self, action: Action, pods: list[PodEntry]) -> None:
        pod = next((each for each in pods if each.key == self._view.selected), None)
        match action:
            case Action.QUIT:
                self._end()
            case Action.RESTART if pod is not None:
                self._group.create_task(self._restart(pod), name="restart")
            case Action.OPEN_LOG if pod is not None:
                self._close_log()
                self._log = self._follower(pod.key)
                self._log_task = self._group.create_task(self._log.run(), name="log")
            case _:
                self._close_log()

    def _close_log(self) -> None:
        if self._log_task is not None:
            self._log_task.cancel()
            self._log_task = None

    def _follower(self, key: Key) -> LogFollower:
        container = partial(self._container, key, self._view.container)
        return LogFollower(self._api, pod=key, container=container, changed=self._changed.set)

    async def _restart(self, pod: PodEntry) -> None:
        try:
            await self._api.post(f"/pykubelet/v1/restart/{pod.key[0]}/{pod.key[1]}")
        except PykubeletError as error:
            self._say(f"not restarted: {visible(str(error))}")
        else:
            self._say(f"restart of pod {pod.name} requested")

    def _say(self, notice: str) -> None:
        self._notice = (notice, time.monotonic() + _NOTICE_SECONDS)
        self._changed.set()

    def _container(self, key: Key, index: int) -> ContainerEntry | None:
        """Return a container of a pod as it is now; None if the pod is gone."""
        pod = next((each for each in self._model.pods if each.key == key), None)
        return pod.containers[index] if pod is not None and index < len(pod.containers) else None

    # -- the screen ----------------------------------------------------------------------------------------------------

    async def _draw(self) -> None:
        """Draw after each change, but not too often."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                width, height = self._terminal.size()
                if self._view.mode is Mode.LOGS:
                    pod = next((each for each in self._model.pods if each.key == self._view.selected), None)
                    lines = log_frame(self._log.text, pod, self._view, width, height)
                else:
                    lines = frame(self._scene(), width, height)
                self._terminal.draw(lines, width)
            except OSError:
                self._end(signal.SIGHUP)
            await asyncio.sleep(_FRAME_SECONDS)

    def _scene(self) -> Scene:
        now = time.monotonic()
        notice, until = self._notice
        return Scene(
            pods=self._model.pods,
            node=self._model.node,
            view=self._view,
            now=time.time(),
            has_namespaces=self._model.has_namespaces,
            lost=next(iter(self._failures.values()), ""),
            lost_seconds=now - self._lost_at,
            notice=notice if now < until else "",
            hint=self._options.hint,
            connected=self._connected,
            ascii_only=self._terminal.ascii_only,
        )

    def _height(self) -> int:
        try:
            return self._terminal.size()[1]
        except OSError:
            return LogExtent().page
