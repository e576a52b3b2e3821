"""Traces in OpenTelemetry's form: which parts a pod start or a CRI call consists of, across processes.

``spans.py`` has the functions that the code calls; they cost nothing, and no library is imported, until a daemon has
called ``start``. ``otlp.py`` sends the spans to a collector with the OpenTelemetry SDK (extra ``tracing``). Start
reading at ``spans.py``.
"""

from pykubelet.base.tracing.plan.rpc import rpc_span, trace_headers
from pykubelet.base.tracing.plan.trace_settings import DEFAULT_ENDPOINT, TraceSettings, trace_settings
from pykubelet.base.tracing.span_types import CallSide
from pykubelet.base.tracing.spans import (
    begin_group,
    carrier,
    end_group,
    fail,
    record,
    recording,
    served,
    span,
    start,
    stop,
    variables,
)

__all__ = [
    "DEFAULT_ENDPOINT",
    "CallSide",
    "TraceSettings",
    "begin_group",
    "carrier",
    "end_group",
    "fail",
    "record",
    "recording",
    "rpc_span",
    "served",
    "span",
    "start",
    "stop",
    "trace_headers",
    "trace_settings",
    "variables",
]
