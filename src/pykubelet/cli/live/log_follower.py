"""Follows the log of one container for the live view."""

import asyncio
from collections.abc import Callable
from typing import Final

from pykubelet.base.errors import PykubeletError
from pykubelet.base.units import Seconds
from pykubelet.cli.live.live_api import LiveApi
from pykubelet.cli.live.plan.live_model import ContainerEntry, Key
from pykubelet.cli.live.plan.log_frame import LogText
from pykubelet.cli.plan.screen_text import log_text, visible

_RETRY_SECONDS: Final[Seconds] = 1.0
_LINES: Final = 500
"""Lines of the log that are read at first."""


class LogFollower:
    """Reads the log into ``text``, and calls ``changed`` after each line.

    ``container`` gives the container as it is now; None: its pod is gone.
    """

    def __init__(
        self, api: LiveApi, *, pod: Key, container: Callable[[], ContainerEntry | None], changed: Callable[[], None]
    ) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{pod[0]}/pods/{pod[1]}/log"
        self._container = container
        self._changed = changed
        self.text = LogText()

    async def run(self) -> None:
        """Follow until cancelled: a log that has ended again when the container has changed, after errors at once."""
        read: ContainerEntry | None = None
        while True:
            now = self._container()
            if now is not None and now != read:
                read = now if await self._read(now.name) else None
            await asyncio.sleep(_RETRY_SECONDS)

    async def _read(self, name: str) -> bool:
        """Read the log to its end; returns whether the agent has ended it."""
        text = LogText()
        try:
            async for line in self._api.lines(self._path, container=name, follow="true", tailLines=_LINES):
                text.add(log_text(line))
                self.text = text  # only now, so that the old text stays while there is no new one
                self._changed()
            self.text.end("the log has ended")
        except PykubeletError as error:
            self.text.end(visible(str(error)))
            return False
        finally:
            self._changed()
        return True
