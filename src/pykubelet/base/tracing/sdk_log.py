"""The log of the OpenTelemetry SDK: few lines, and no stack traces. Set up before the SDK is imported."""

import logging
from typing import Final

from pykubelet.base.clock import Clock, SystemClock
from pykubelet.base.units import Seconds

_QUIET: Final[Seconds] = 600.0
_REPEATING: Final = (
    "opentelemetry.exporter.otlp.proto.grpc.exporter",
    "opentelemetry.sdk._shared_internal",
    "opentelemetry.trace.span",  # complains about wrong headers of clients, in each call
)
_AT_START: Final = ("opentelemetry.sdk.resources", "opentelemetry.sdk.trace.export")
"""Loggers that tell of values of environment variables that the SDK ignores, with a stack trace."""


def quieten() -> None:
    """Keep the SDK's loggers from filling the log. Idempotent."""
    for name in _REPEATING:
        _add(logging.getLogger(name), RareMessageFilter(SystemClock()))
    for name in _AT_START:
        _add(logging.getLogger(name), ShortMessageFilter())


def _add(logger: logging.Logger, filter: logging.Filter) -> None:
    if not any(type(each) is type(filter) for each in logger.filters):
        logger.addFilter(filter)


class RareMessageFilter(logging.Filter):
    """Lets one message pass in ten minutes: the SDK reports each attempt to reach an absent collector, and more."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._last = -_QUIET

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the message is logged."""
        now = self._clock.monotonic()
        if now - self._last < _QUIET:
            return False
        self._last = now
        return True


class ShortMessageFilter(logging.Filter):
    """Takes the stack traces off messages, and lets none pass twice in a row."""

    def __init__(self) -> None:
        super().__init__()
        self._last = ""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the message is logged."""
        record.exc_info = record.exc_text = None
        last, self._last = self._last, record.getMessage()
        return self._last != last
