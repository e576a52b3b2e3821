"""A recorder whose spans stay in memory."""

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pykubelet.base.tracing import spans
from pykubelet.base.tracing.otlp import OtlpRecorder


class RecordedSpans:
    """The spans that have ended."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    def __getitem__(self, name: str) -> ReadableSpan:
        """The span of that name, which must be the only one."""
        (found,) = [span for span in self._exporter.get_finished_spans() if span.name == name]
        return found

    def names(self) -> list[str]:
        return [span.name for span in self._exporter.get_finished_spans()]

    def parent(self, name: str) -> str:
        """The name of a span's parent; empty: it has begun a trace."""
        parent = self[name].parent
        known = {span.context.span_id: span.name for span in self._exporter.get_finished_spans() if span.context}
        return "" if parent is None else known[parent.span_id]


@contextmanager
def recording(ratio: float = 1.0) -> Iterator[RecordedSpans]:
    """Record while the context is open."""
    exporter = InMemorySpanExporter()
    recorder = OtlpRecorder(SimpleSpanProcessor(exporter), exporter, ratio=ratio, resource={"service.name": "test"})
    spans.use(recorder)
    try:
        yield RecordedSpans(exporter)
    finally:
        spans.use(None)
        recorder.close()
