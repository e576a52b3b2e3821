"""The recorder that sends spans to an OTLP collector, with the OpenTelemetry SDK. Imported only if traces are recorded.

The SDK queues up to 2048 spans, sends them every five seconds from a thread of its own, and drops what a collector
that is away does not take; its environment variables (OTEL_BSP_…) apply.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Final, cast

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.grpc.exporter import InvalidCompressionValueException
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from pykubelet.base.errors import Invalid
from pykubelet.base.text import printable
from pykubelet.base.tracing.plan.trace_settings import TraceSettings
from pykubelet.base.tracing.span_types import Attributes, CallSide, OpenSpan
from pykubelet.base.units import Seconds

_TEXT: Final = 1024
"""Maximum length of a text of a span: a collector refuses all spans of a message that is longer than 4 MiB."""
_KINDS: Final = {
    CallSide.INTERNAL: SpanKind.INTERNAL,
    CallSide.CLIENT: SpanKind.CLIENT,
    CallSide.SERVER: SpanKind.SERVER,
}


class _Group:
    """A span that is the parent of others."""

    def __init__(self, span: trace.Span) -> None:
        self.span = span

    def end(self) -> None:
        self.span.end()


class OtlpRecorder:
    """Implements ``Recorder``."""

    def __init__(
        self, processor: SpanProcessor, exporter: SpanExporter, *, ratio: float, resource: Mapping[str, str]
    ) -> None:
        """``processor`` gets the spans that have ended, for ``exporter``; ``ratio`` is that of ``TraceSettings``."""
        self._exporter = exporter
        sampler = ParentBased(TraceIdRatioBased(ratio))
        # The provider would send at the end of the process, and wait for a collector that is away: `close` does that.
        self._provider = TracerProvider(
            sampler=sampler, resource=Resource.create(dict(resource)), shutdown_on_exit=False
        )
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("pykubelet")
        self._headers = TraceContextTextMapPropagator()

    @classmethod
    def to_collector(cls, settings: TraceSettings, resource: Mapping[str, str]) -> "OtlpRecorder":
        """Return a recorder that sends to the collector of the settings; the connection is opened in the background.

        Invalid: the environment has a wrong value for the SDK.
        """
        # gRPC takes numbers here, which the exporter's types do not allow. A proxy is for HTTP, not for the collector.
        options = cast("tuple[tuple[str, str]]", (("grpc.enable_http_proxy", 0),))
        try:
            exporter = OTLPSpanExporter(endpoint=settings.endpoint, insecure=True, channel_options=options)
            return cls(BatchSpanProcessor(exporter), exporter, ratio=settings.ratio, resource=resource)
        except (ValueError, InvalidCompressionValueException) as error:
            raise Invalid(f"tracing: check the environment variables OTEL_…: the SDK refuses them: {error}") from error

    def span(
        self, name: str, attributes: Attributes, kind: CallSide, parent: OpenSpan | Attributes | None
    ) -> AbstractContextManager[object]:
        """Return a context in which a new span is the current one."""
        return self._span(name, attributes, kind, parent)

    @contextmanager
    def _span(
        self, name: str, attributes: Attributes, kind: CallSide, parent: OpenSpan | Attributes | None
    ) -> Iterator[None]:
        with self._tracer.start_as_current_span(
            _text(name),
            context=self._context(parent),
            kind=_KINDS[kind],
            attributes=_texts(attributes),
            record_exception=False,  # the status has the error's text; a stack trace says no more
            set_status_on_exception=False,  # the SDK would neither shorten nor escape it
        ) as span:
            try:
                yield
            except Exception as error:
                span.set_status(Status(StatusCode.ERROR, _text(str(error)) or type(error).__name__))
                raise

    def fail(self, error: str) -> None:
        """Mark the current span as failed."""
        trace.get_current_span().set_status(Status(StatusCode.ERROR, _text(error)))

    def begin(self, name: str, attributes: Attributes) -> OpenSpan:
        """Begin a trace."""
        return _Group(self._tracer.start_span(_text(name), context=Context(), attributes=_texts(attributes)))

    def record(
        self, name: str, attributes: Attributes, times: tuple[Seconds, Seconds], error: str, parent: OpenSpan | None
    ) -> None:
        """Record a span that has ended."""
        begun, ended = (round(each * 1e6) * 1000 for each in times)
        span = self._tracer.start_span(
            _text(name), context=self._context(parent), attributes=_texts(attributes), start_time=begun
        )
        if error:
            span.set_status(Status(StatusCode.ERROR, _text(error)))
        span.end(ended)

    def within(self) -> bool:
        """Whether there is a current span."""
        return trace.get_current_span().get_span_context().is_valid

    def carrier(self) -> dict[str, str]:
        """Return the current span in the form of HTTP headers."""
        found: dict[str, str] = {}
        self._headers.inject(found)
        return found

    def close(self) -> None:
        """Send the remaining spans, and end. Blocking."""
        self._provider.shutdown()

    def give_up(self) -> None:
        """Drop what the collector does not take."""
        self._exporter.shutdown()

    def _context(self, parent: OpenSpan | Attributes | None) -> Context | None:
        if isinstance(parent, _Group):
            return trace.set_span_in_context(parent.span, Context())
        return self._headers.extract(parent, Context()) if isinstance(parent, Mapping) else None


def _texts(attributes: Attributes) -> dict[str, str]:
    return {name: _text(value) for name, value in attributes.items()}


def _text(text: str) -> str:
    """Return a text as one line that can be encoded, and is not too long: one bad text would lose a whole message."""
    return printable(text[:_TEXT])[:_TEXT]
