"""Spans, and what records them."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from enum import Enum
from typing import Protocol, TypeAlias

from pykubelet.base.units import Seconds

Attributes: TypeAlias = Mapping[str, str]


class CallSide(Enum):
    """The side of a call that a span shows."""

    INTERNAL = "internal"
    CLIENT = "client"
    SERVER = "server"


class OpenSpan(Protocol):
    """A span that is ended explicitly, by the recorder that has begun it."""

    def end(self) -> None:
        """End it now."""
        ...


class Recorder(Protocol):
    """Records spans."""

    def span(
        self, name: str, attributes: Attributes, kind: CallSide, parent: OpenSpan | Attributes | None
    ) -> AbstractContextManager[object]:
        """Return a context in which a new span is the current one.

        ``parent``: a group, the headers of a client, or None for the current span.
        """
        ...

    def fail(self, error: str) -> None:
        """Mark the current span as failed."""
        ...

    def begin(self, name: str, attributes: Attributes) -> OpenSpan:
        """Begin a trace."""
        ...

    def record(
        self, name: str, attributes: Attributes, times: tuple[Seconds, Seconds], error: str, parent: OpenSpan | None
    ) -> None:
        """Record a span that has ended; ``times`` are its begin and end in wall time, in seconds since 1970."""
        ...

    def within(self) -> bool:
        """Whether there is a current span."""
        ...

    def carrier(self) -> dict[str, str]:
        """Return the current span in the form of HTTP headers (W3C Trace Context)."""
        ...

    def close(self) -> None:
        """Send the remaining spans, and end. Blocking until the collector has taken it or ``give_up`` is called."""
        ...

    def give_up(self) -> None:
        """Drop what the collector does not take. Does not block."""
        ...
