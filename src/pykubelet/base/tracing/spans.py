"""Spans: what the code calls around work that belongs in a trace.

Like the log, the recorder is one for the process: a daemon calls ``start`` once. Before that every function here
returns at once. Spans nest by context variables, which a task inherits from the task that creates it. The
SDK logs its own failures; they do not reach the caller.

A group is a span that spans several tasks and steps, such as the start of a pod: spans without a span around them
become its children while it is open. The number of open groups is bounded.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Invalid, PykubeletError
from pykubelet.base.tracing.plan.trace_settings import TraceSettings
from pykubelet.base.tracing.sdk_log import quieten
from pykubelet.base.tracing.span_types import Attributes, CallSide, OpenSpan, Recorder
from pykubelet.base.units import Seconds

_log = logging.getLogger(__name__)
MAX_GROUPS: Final = 2048
_LAST_SPANS: Final[Seconds] = 2.0
"""Longest wait, at the end of a daemon, for the collector to take the last spans."""
_NOTHING: Final = nullcontext()
_NO_ATTRIBUTES: Final[Attributes] = {}


class _State:
    """The recorder of this process, if it records, and the groups that are open."""

    recorder: Recorder | None = None
    groups: OrderedDict[str, OpenSpan] = OrderedDict()  # noqa: RUF012 - there is one state


def start(settings: TraceSettings, *, service: str, host: str) -> None:
    """Begin to record: ``service`` and ``host`` become resource attributes.

    Invalid: the SDK is not installed, or refuses its environment variables.
    """
    quieten()
    try:
        from pykubelet.base.tracing.otlp import OtlpRecorder
    except ImportError as error:
        raise Invalid(
            f"tracing needs the OpenTelemetry SDK ({error.name} is missing): pip install 'pykubelet[tracing]'"
        ) from error
    except ValueError as error:  # the SDK reads some of its variables when it is imported
        raise Invalid(f"tracing: check the environment variables OTEL_…: the SDK refuses them: {error}") from error
    use(OtlpRecorder.to_collector(settings, {"service.name": service, "host.name": host}))


def use(recorder: Recorder | None) -> None:
    """Record with this recorder from now on; None: do not record."""
    _State.groups.clear()
    _State.recorder = recorder


async def stop() -> None:
    """End the groups and send the last spans, if the collector takes them within two seconds."""
    recorder = _State.recorder
    if recorder is None:
        return
    for key in list(_State.groups):
        end_group(key)
    use(None)
    giving_up = asyncio.get_running_loop().call_later(_LAST_SPANS, recorder.give_up)
    try:
        await blocking.call("tracing", recorder.close, deadline=2 * _LAST_SPANS)
    except PykubeletError as error:
        _log.warning("last spans not sent", extra={"error": str(error)})
    finally:
        giving_up.cancel()


def recording() -> bool:
    """Whether spans are recorded."""
    return _State.recorder is not None


def span(
    name: str,
    attributes: Attributes = _NO_ATTRIBUTES,
    *,
    kind: CallSide = CallSide.INTERNAL,
    group: str = "",
    nested: bool = False,
) -> AbstractContextManager[object]:
    """Return a context that records a span; errors that leave it mark the span.

    The parent is the current span, else the open group of that key; without both it begins a trace, unless ``nested``.
    """
    recorder = _State.recorder
    if recorder is None:
        return _NOTHING
    parent = None if recorder.within() else _State.groups.get(group)
    if nested and parent is None and not recorder.within():
        return _NOTHING
    return recorder.span(name, attributes, kind, parent)


def fail(error: str) -> None:
    """Mark the current span as failed, with the text of an error that does not leave it."""
    if _State.recorder is not None:
        _State.recorder.fail(error)


def served(name: str, attributes: Attributes, headers: Attributes) -> AbstractContextManager[object]:
    """Return a context that records a call of a client, as a part of the client's trace if it has one."""
    recorder = _State.recorder
    return _NOTHING if recorder is None else recorder.span(name, attributes, CallSide.SERVER, headers)


def begin_group(key: str, name: str, attributes: Attributes = _NO_ATTRIBUTES) -> None:
    """Begin a trace to which spans of several tasks belong; it replaces an open one of that key."""
    recorder = _State.recorder
    if recorder is None:
        return
    end_group(key)
    _State.groups[key] = recorder.begin(name, attributes)
    if len(_State.groups) > MAX_GROUPS:
        _State.groups.popitem(last=False)[1].end()


def end_group(key: str) -> None:
    """End a group, if it is open."""
    found = _State.groups.pop(key, None)
    if found is not None:
        found.end()


def record(
    name: str,
    times: tuple[Seconds, Seconds],
    attributes: Attributes = _NO_ATTRIBUTES,
    *,
    error: str = "",
    group: str = "",
) -> None:
    """Record a span that has ended, within the current span or the group; nothing without both.

    ``times``: its begin and end in wall time, in seconds since 1970.
    """
    recorder = _State.recorder
    if recorder is None:
        return
    parent = None if recorder.within() else _State.groups.get(group)
    if parent is not None or recorder.within():
        recorder.record(name, attributes, times, error, parent)


def carrier() -> Mapping[str, str]:
    """Return the headers that let a server continue the current trace; empty without a current span."""
    recorder = _State.recorder
    return _NO_ATTRIBUTES if recorder is None else recorder.carrier()


def variables() -> Mapping[str, str]:
    """Return ``carrier()`` as environment variables of a program (TRACEPARENT, TRACESTATE)."""
    return {name.upper(): value for name, value in carrier().items()}
