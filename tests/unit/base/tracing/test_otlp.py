"""The recorder with the SDK: a real collector, one that is away, its messages."""

import asyncio
import logging
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pykubelet.base import tracing
from pykubelet.base.errors import Invalid
from pykubelet.base.tracing.sdk_log import RareMessageFilter
from pykubelet.testing.agent import environment
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.free_ports import free_port
from pykubelet.testing.otlp_receiver import received


@pytest.mark.serves
async def test_spans_reach_a_collector(tmp_path: Path) -> None:
    port, file = free_port(), tmp_path / "spans"
    argv = [sys.executable, "-m", "pykubelet.testing.otlp_receiver", str(port), str(file)]
    collector = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE, env=environment())
    try:
        assert collector.stdout is not None
        assert await collector.stdout.readline() == b"ready\n"
        tracing.start(tracing.trace_settings(f"127.0.0.1:{port}", 1_000_000), service="kubelet", host="node")
        with tracing.span("syncPod", {"k8s.pod": "default/web"}):
            pass
        await tracing.stop()
        (span,) = received(file)
        assert (span.name, span.service, span.pod, span.parent) == ("syncPod", "kubelet", "default/web", "")
    finally:
        collector.terminate()
        await collector.wait()


@pytest.mark.serves
async def test_collector_that_is_away_does_not_hold_up_the_end(caplog: pytest.LogCaptureFixture) -> None:
    tracing.start(tracing.trace_settings(f"127.0.0.1:{free_port()}", 1_000_000), service="kubelet", host="node")
    with tracing.span("lost"):
        pass
    begun = time.monotonic()
    await tracing.stop()
    assert time.monotonic() - begun < 20, "the exporter alone would try for longer"
    assert len([record for record in caplog.records if record.name.startswith("opentelemetry")]) <= 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "zip"),
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "x"),
    ],
)
def test_wrong_environment_variable_of_the_sdk_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(Invalid, match=rf"OTEL_….*{value}"):
        tracing.start(tracing.trace_settings("", 0), service="kubelet", host="node")
    assert not tracing.recording()


_START = """
from pykubelet.base import tracing
from pykubelet.base.errors import Invalid
try:
    tracing.start(tracing.trace_settings("", 0), service="kubelet", host="node")
except Invalid as error:
    print("refused:", error)
else:
    print("started")
"""


@pytest.mark.parametrize(
    ("name", "value", "reported"),
    [
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "x", "refused: tracing: check the environment variables OTEL_"),
        ("OTEL_SPAN_LINK_COUNT_LIMIT", "-1", "refused: tracing: check the environment variables OTEL_"),
        ("OTEL_EXPERIMENTAL_RESOURCE_DETECTORS", "moon", "Failed to load resource detector 'moon', skipping"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "x", "Unable to parse value for OTEL_BSP_MAX_QUEUE_SIZE as integer"),
    ],
)
def test_wrong_environment_variable_at_the_start_of_a_program_makes_no_stack_trace(
    name: str, value: str, reported: str
) -> None:
    """The SDK reads some variables when it is imported, which this process has done."""
    argv = [sys.executable, "-c", _START]
    done = subprocess.run(argv, env={**environment(), name: value}, text=True, capture_output=True)
    assert done.returncode == 0
    assert (done.stdout + done.stderr).count(reported) == 1
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.serves
async def test_wrong_headers_of_clients_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    tracing.start(tracing.trace_settings(f"127.0.0.1:{free_port()}", 1_000_000), service="criserver", host="node")
    headers = {"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01", "tracestate": "no list"}
    try:
        for _ in range(3):
            with tracing.served("call", {}, headers):
                pass
    finally:
        await tracing.stop()
    assert len([record for record in caplog.records if "w3c" in record.getMessage()]) <= 1


def test_missing_sdk_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden: dict[str, Any] = dict.fromkeys(
        ("pykubelet.base.tracing.otlp", *(name for name in sys.modules if name.startswith("opentelemetry")))
    )
    hidden["opentelemetry"] = None
    for name in hidden:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(Invalid, match=r"pip install 'pykubelet\[tracing\]'"):
        tracing.start(tracing.trace_settings("", 0), service="kubelet", host="node")
    assert not tracing.recording()


async def test_one_message_in_ten_minutes() -> None:
    clock = VirtualClock()
    rare, record = RareMessageFilter(clock), logging.LogRecord("x", logging.WARNING, "", 0, "away", None, None)
    shown = []
    for _ in range(61):
        shown.append(rare.filter(record))
        await clock.advance(10.0)
    assert shown == [True, *[False] * 59, True]
