"""`RuntimeHealth`: calls the runtime's Status every 5 s while it is ready, else after 0.1 s with back-off up to 5 s."""

import logging
from collections.abc import Awaitable, Callable

from msgspec import Struct

from pykubelet.base.backoff import Backoff
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.errors import PykubeletError
from pykubelet.base.units import Seconds
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.reports.events import WARNING, Reason
from pykubelet.kubelet.types.runtime import RuntimeConditions

_log = logging.getLogger(__name__)

CHECK_SECONDS: Seconds = 5.0
FIRST_RETRY_SECONDS: Seconds = 0.1
_PATIENCE: Seconds = 30.0
"""Time without a response after which the node reports the runtime as down, as the Go kubelet."""


class RuntimeHealthDeps(Struct, frozen=True, kw_only=True):
    """Dependencies of `RuntimeHealth`."""

    ask: Callable[[], Awaitable[RuntimeConditions]]
    """Reads the runtime's conditions; raises errors of ``base.errors`` if it does not respond."""
    recovered: Callable[[], None]
    """Called when the runtime responds again, or its network has become ready."""
    telemetry: Telemetry[object]


class RuntimeHealth:
    """The last known conditions of the runtime. A runtime that does not respond is not ready."""

    def __init__(self, deps: RuntimeHealthDeps) -> None:
        self._deps = deps
        self._guard = Guard("runtime-health", deps.telemetry.clock.monotonic)
        self._conditions = RuntimeConditions(message="the container runtime has not been checked yet", responding=False)
        self._last_response = self._conditions
        self._responded_at: Seconds | None = None
        self._asked = False

    def known(self) -> bool:
        """Whether the runtime has ever responded."""
        return self._responded_at is not None

    def current(self) -> RuntimeConditions:
        """Return the conditions of the last check."""
        return self._conditions

    def reported(self) -> RuntimeConditions:
        """Return the conditions for the node's status: those of the last response until it is 30 s old.

        A restart of the runtime affects no running container, while a cluster takes all pods of a node that is not
        ready out of service.
        """
        at, now = self._responded_at, self._deps.telemetry.clock.monotonic()
        return self._conditions if at is None or now - at >= _PATIENCE else self._last_response

    def healthy(self) -> str | None:
        """Return None, or why the runtime cannot be used now."""
        return None if self._conditions.runtime_ready else self._conditions.message

    async def run(self) -> None:
        """Check until cancelled."""
        backoff = Backoff(FIRST_RETRY_SECONDS, CHECK_SECONDS)
        clock = self._deps.telemetry.clock
        while True:
            with self._guard.item("check"):
                await self.check()
            if self._conditions.runtime_ready and self._conditions.network_ready:
                backoff.reset("runtime")
                await clock.sleep(CHECK_SECONDS)
            else:
                await clock.sleep(backoff.next("runtime", clock.monotonic()))

    async def check(self) -> None:
        """Check once; a change is logged and reported."""
        before = self._conditions
        try:
            self._conditions = self._last_response = await self._deps.ask()
            self._responded_at = self._deps.telemetry.clock.monotonic()
        except PykubeletError as error:
            message = f"the container runtime is not responding: {error}"
            self._conditions = RuntimeConditions(message=message, responding=False)
        now = self._conditions
        if (before.runtime_ready, before.network_ready) == (now.runtime_ready, now.network_ready) and self._asked:
            return
        self._asked = True
        if now.runtime_ready:
            fields = {"network_ready": now.network_ready, "detail": now.message}
            _log.info("container runtime: ready", extra=fields)
            self._deps.recovered()
        else:
            self._deps.telemetry.events.event(None, WARNING, Reason.RUNTIME_NOT_READY, now.message)
