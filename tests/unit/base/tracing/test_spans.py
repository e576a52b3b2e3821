"""Spans: parents, groups, what is recorded without a recorder."""

import asyncio
import subprocess
import sys
from contextlib import suppress

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from pykubelet.base import tracing
from pykubelet.base.tracing import spans
from tests.unit.base.tracing.recorded import recording


def test_without_recorder_nothing_is_imported_or_recorded() -> None:
    program = (
        "import sys\n"
        "from pykubelet.base import tracing\n"
        "tracing.begin_group('g', 'root')\n"
        "with tracing.span('a', group='g'), tracing.served('b', {}, {}):\n"
        "    assert not tracing.carrier() and not tracing.variables() and not tracing.recording()\n"
        "tracing.record('c', (1.0, 2.0), group='g')\n"
        "tracing.end_group('g')\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


async def test_spans_nest_through_tasks() -> None:
    async def inner() -> None:
        with tracing.span("inner"):
            await asyncio.sleep(0)

    with recording() as recorded:
        with tracing.span("outer"):
            await asyncio.create_task(inner())
        assert recorded.parent("inner") == "outer"
        assert recorded.parent("outer") == ""


def test_error_marks_the_span_and_goes_on() -> None:
    with recording() as recorded:
        with pytest.raises(ValueError, match="wrong"), tracing.span("failing"):
            raise ValueError("wrong")
        assert recorded["failing"].status.status_code is StatusCode.ERROR
        assert "wrong" in (recorded["failing"].status.description or "")


@pytest.mark.parametrize(
    ("error", "shown"), [("a\udcff\nb", "a\\xff\\nb"), ("y" * 10_000_000, "y" * 1024), ("", "ValueError")]
)
def test_text_that_a_collector_would_not_take_is_escaped_and_shortened(error: str, shown: str) -> None:
    with recording() as recorded:
        tracing.begin_group("g", f"group {error}", {"text": error})
        with suppress(ValueError), tracing.span("raised", {"text": error}, group="g"):
            raise ValueError(error)
        tracing.record("recorded", (1.0, 2.0), {"text": error}, error=error or "ValueError", group="g")
        tracing.end_group("g")
        assert recorded["raised"].status.description == shown
        assert recorded["recorded"].status.description == shown
        for name in recorded.names():
            assert len(name.encode()) <= 1024
            assert len(str((recorded[name].attributes or {})["text"]).encode()) <= 1024


def test_error_that_does_not_leave_a_span_marks_it() -> None:
    tracing.fail("without a recorder")
    with recording() as recorded:
        tracing.fail("without a span")
        with tracing.span("failing"):
            tracing.fail("no room")
        assert recorded["failing"].status.status_code is StatusCode.ERROR
        assert recorded["failing"].status.description == "no room"


def test_nested_only_span_needs_a_parent() -> None:
    with recording() as recorded:
        with tracing.span("alone", nested=True):
            pass
        tracing.begin_group("g", "root")
        with tracing.span("of the group", nested=True, group="g"):
            pass
        tracing.end_group("g")
        assert recorded.names() == ["of the group", "root"]


def test_group_is_the_parent_while_it_is_open() -> None:
    with recording() as recorded:
        tracing.begin_group("g", "root", {"k8s.pod": "default/web"})
        with tracing.span("first", group="g"), tracing.span("within", group="g"):
            pass
        tracing.end_group("g")
        tracing.end_group("g")
        with tracing.span("later", group="g"):
            pass
        assert [recorded.parent(name) for name in ("first", "within", "later")] == ["root", "first", ""]
        assert (recorded["root"].attributes or {})["k8s.pod"] == "default/web"


def test_a_group_that_begins_again_ends_the_former_one() -> None:
    with recording() as recorded:
        tracing.begin_group("g", "old")
        tracing.begin_group("g", "new")
        assert recorded.names() == ["old"]


def test_number_of_groups_is_bounded() -> None:
    with recording() as recorded:
        for number in range(spans.MAX_GROUPS + 3):
            tracing.begin_group(str(number), f"root-{number}")
        assert recorded.names() == ["root-0", "root-1", "root-2"], "the oldest ended"


def test_call_continues_the_trace_of_its_client() -> None:
    with recording() as recorded:
        with tracing.span("client", kind=tracing.CallSide.CLIENT):
            headers = tracing.carrier()
            variables = tracing.variables()
        with tracing.served("served", {"rpc.method": "M"}, headers):
            pass
        with tracing.served("other", {}, {}):
            pass
        assert recorded.parent("served") == "client"
        assert recorded.parent("other") == ""
        assert recorded["served"].kind is SpanKind.SERVER
        assert recorded["client"].kind is SpanKind.CLIENT
        assert variables == {"TRACEPARENT": headers["traceparent"]}


@pytest.mark.parametrize("headers", [{"traceparent": "x"}, {"traceparent": "00-0-0-0"}, {"tracestate": "\n" * 9999}])
def test_hostile_headers_begin_a_trace(headers: dict[str, str]) -> None:
    with recording() as recorded:
        with tracing.served("served", {}, headers):
            pass
        assert recorded.parent("served") == ""


def test_trace_that_is_not_sampled_is_not_recorded_but_passed_on() -> None:
    with recording(0.0) as recorded:
        with tracing.span("client"):
            flags = tracing.carrier()["traceparent"].rpartition("-")[2]
            assert int(flags, 16) & 1 == 0, "the flag 'sampled'"
        assert recorded.names() == []
        with tracing.served("served", {}, {"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"}):
            pass
        assert recorded.names() == ["served"], "the client records its trace"


def test_finished_step_is_recorded_with_its_times() -> None:
    with recording() as recorded:
        tracing.record("no parent", (1.0, 2.0))
        tracing.begin_group("g", "root")
        tracing.record("pull", (1700000000.5, 1700000002.25), {"container": "main"}, error="no such image", group="g")
        tracing.end_group("g")
        pull = recorded["pull"]
        assert recorded.names() == ["pull", "root"]
        assert (pull.start_time, pull.end_time) == (1700000000500000000, 1700000002250000000)
        assert pull.status.description == "no such image"
        assert recorded.parent("pull") == "root"


async def test_stop_ends_open_groups_and_sends_them() -> None:
    with recording() as recorded:
        tracing.begin_group("g", "root")
        await tracing.stop()
        assert recorded.names() == ["root"]
        assert not tracing.recording()
        await tracing.stop()
