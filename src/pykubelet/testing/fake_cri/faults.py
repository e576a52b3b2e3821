"""The call log of the fake runtime, and the faults that tests inject into its calls."""

import asyncio
from dataclasses import dataclass, field

from google.protobuf.message import Message
from grpc import StatusCode

from pykubelet.base.clock import Clock
from pykubelet.base.units import Seconds


class RpcError(Exception):
    """Raised by a handler to fail a call with a gRPC status."""

    def __init__(self, code: StatusCode, details: str) -> None:
        super().__init__(f"{code.name}: {details}")
        self.code = code
        self.details = details


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One received call."""

    method: str
    target: str
    """`ns/pod`, `ns/pod/container` or the image; an unknown id is kept unchanged."""
    time: Seconds
    """Unix time on the fake's clock."""
    request: Message = field(repr=False)


@dataclass(slots=True)
class Fault:
    """A fault in calls of one method; pass it to `FakeCri.inject`.

    The delay comes first, then the hang, then the error.
    """

    method: str
    target: str | None = None
    """Only calls with this target (see `CallRecord.target`); None: all."""
    code: StatusCode | None = None
    details: str = "injected"
    delay: Seconds = 0.0
    hang: bool = False
    """Wait until `release`."""
    after: bool = False
    """Execute the call first and then apply the fault, as if the reply had been lost."""
    times: int | None = None
    """Number of calls that it applies to; None: all until it is removed."""
    hits: int = 0
    _released: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    def release(self) -> None:
        """Let hanging calls and all later ones continue."""
        self._released.set()

    def matches(self, method: str, target: str) -> bool:
        """Whether the fault applies to this call."""
        if self.times is not None and self.hits >= self.times:
            return False
        return method == self.method and self.target in (None, target)

    async def strike(self, clock: Clock) -> None:
        """Apply the fault: wait, hang, raise `RpcError`."""
        if self.delay:
            await clock.sleep(self.delay)
        if self.hang:
            await self._released.wait()
        if self.code is not None:
            raise RpcError(self.code, self.details)
