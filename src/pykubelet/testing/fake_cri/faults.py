"""The call log of the fake runtime, and the faults that tests put into its calls."""

import asyncio
from dataclasses import dataclass, field

from google.protobuf.message import Message
from grpc import StatusCode

from pykubelet.base.clock import Clock
from pykubelet.base.units import Seconds


class RpcError(Exception):
    """What a handler raises to fail a call with a gRPC status."""

    def __init__(self, code: StatusCode, details: str) -> None:
        super().__init__(f"{code.name}: {details}")
        self.code = code
        self.details = details


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A call as it came in."""

    method: str
    target: str
    """`ns/pod`, `ns/pod/container` or the image; an id that the runtime does not know stays as it is."""
    time: Seconds
    """Unix time on the fake's clock."""
    request: Message = field(repr=False)


@dataclass(slots=True)
class Fault:
    """Something that goes wrong in calls of one method; give it to `FakeCri.inject`.

    First the delay, then the hang, then the error.
    """

    method: str
    target: str | None = None
    """Only calls about this (see `CallRecord.target`); None: all."""
    code: StatusCode | None = None
    details: str = "injected"
    delay: Seconds = 0.0
    hang: bool = False
    """Wait until `release`."""
    after: bool = False
    """Do what was asked first, and then go wrong, as when the answer is lost."""
    times: int | None = None
    """How many calls it hits; None: all until it is removed."""
    hits: int = 0
    _released: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    def release(self) -> None:
        """Let the calls that hang go on, and all later ones."""
        self._released.set()

    def matches(self, method: str, target: str) -> bool:
        """Whether it hits this call."""
        if self.times is not None and self.hits >= self.times:
            return False
        return method == self.method and self.target in (None, target)

    async def strike(self, clock: Clock) -> None:
        """Go wrong."""
        if self.delay:
            await clock.sleep(self.delay)
        if self.hang:
            await self._released.wait()
        if self.code is not None:
            raise RpcError(self.code, self.details)
