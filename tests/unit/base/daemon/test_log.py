"""Both log formats: fields are printed, a hostile value cannot forge a line."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from pykubelet.base.daemon import log


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield io.StringIO()
    for handler in list(root.handlers):
        root.removeHandler(handler)
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(level)
    logging.captureWarnings(False)


def test_text_has_message_and_fields(stream: io.StringIO) -> None:
    log.setup("info", stream=stream)
    logger = logging.getLogger("pykubelet.kubelet.control")
    logger.debug("not shown")
    logger.warning("pod is late", extra={"pod": "ns/web", "delay_s": 1.5, "final": False, "why": None})
    (line,) = stream.getvalue().splitlines()
    stamp, rest = line.split(" ", 1)
    assert stamp.endswith("Z") and len(stamp) == len("2026-01-31T12:00:00.123Z")
    assert rest == "WARNING kubelet.control: pod is late pod=ns/web delay_s=1.5 final=false why=null"


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        ("a b", '"a b"'),
        ("", '""'),
        ('say "x"', '"say \\"x\\""'),
        ("k=v", '"k=v"'),
        ("one\n2026-01-01T00:00:00.000Z ERROR forged", '"one\\n2026-01-01T00:00:00.000Z ERROR forged"'),
        ("\x1b[31mred", '"\\u001b[31mred"'),
        ("grün", "grün"),
        ("moc.\u202etxt", '"moc.\\u202etxt"'),
        ("filler\u3164", '"filler\\u3164"'),
    ],
)
def test_values_are_quoted_where_needed(stream: io.StringIO, value: str, printed: str) -> None:
    log.setup(logging.INFO, stream=stream)
    logging.getLogger("x").info("message", extra={"field": value})
    assert stream.getvalue().endswith(f" INFO x: message field={printed}\n")
    assert stream.getvalue().count("\n") == 1


def test_a_message_stays_on_one_line(stream: io.StringIO) -> None:
    log.setup("info", stream=stream)
    logging.getLogger("x").info("two\nlines")
    assert stream.getvalue().endswith("x: two\\nlines\n")


def test_text_prints_the_trace(stream: io.StringIO) -> None:
    log.setup("info", stream=stream)
    try:
        raise ValueError("boom")
    except ValueError:
        logging.getLogger("x").exception("failed")
    assert "ValueError: boom" in stream.getvalue()


def test_json_is_one_object_per_line(stream: io.StringIO) -> None:
    log.setup("INFO", "json", stream)
    try:
        raise ValueError("boom")
    except ValueError:
        logging.getLogger("x").exception("failed\nbadly", extra={"pod": "a", "level": "mine", "obj": {1}})
    (line,) = stream.getvalue().splitlines()
    entry = json.loads(line)
    assert entry["msg"] == "failed\nbadly"
    assert (entry["level"], entry["field_level"], entry["pod"]) == ("error", "mine", "a")
    assert "ValueError: boom" in entry["trace"]


def test_setup_again_replaces_the_output(stream: io.StringIO) -> None:
    first = io.StringIO()
    log.setup("info", stream=first)
    log.setup("info", stream=stream)
    logging.getLogger("x").info("here")
    assert first.getvalue() == ""
    assert "here" in stream.getvalue()


@pytest.mark.parametrize("form", ["text", "json"])
def test_hostile_text_in_message_field_or_trace_is_escaped(form: log.Format, stream: io.StringIO) -> None:
    hostile = "\x1b[2J\x9b\u202e\u2028\ud800"
    log.setup("info", form, stream)
    try:
        raise ValueError(hostile)
    except ValueError:
        logging.getLogger("x").exception("failed %s", hostile, extra={"pod": hostile})
    assert not set(hostile) & set(stream.getvalue()) - set("[2J")


@pytest.mark.parametrize("format", ["text", "json"])
@pytest.mark.parametrize(
    "hostile", ["x" * 5_000_000, "\n" * 5_000_000, ["x"] * 2_000_000], ids=["long", "escaped", "list"]
)
def test_long_texts_of_others_are_cut(stream: io.StringIO, format: log.Format, hostile: object) -> None:
    log.setup("info", format, stream)
    try:
        raise ValueError(hostile)
    except ValueError as error:
        logging.getLogger("x").exception(
            "failed: %s", hostile, extra={"path": hostile, "error": str(error), "pod": "a"}
        )
    text = stream.getvalue()
    assert len(text) < 1_000_000 and "more characters)" in text
    assert ("pod=a" if format == "text" else '"pod": "a"') in text
    if format == "json":
        assert set(json.loads(text)) >= {"msg", "path", "error", "pod", "trace"}


@pytest.mark.parametrize("format", ["text", "json"])
def test_end_of_a_trace_whose_cause_has_a_long_text_is_shown(stream: io.StringIO, format: log.Format) -> None:
    """It has the error itself, and where it was raised."""
    log.setup("info", format, stream)
    try:
        raise RuntimeError("the defect") from ValueError("x" * 100_000)
    except RuntimeError:
        logging.getLogger("x").exception("failed")
    text = stream.getvalue()
    assert "more characters)" in text and "RuntimeError: the defect" in text and "ValueError: xxx" in text
