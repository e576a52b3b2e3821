"""CRI's log format."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.kubelet.types.crilog import (
    LogRecord,
    LogStream,
    last_lines,
    parse_record,
    parse_records,
)

NS = 1_475_713_029_669_794_202
STAMP = "2016-10-06T00:17:09.669794202Z"


def record(content: bytes, partial: bool = False, stream: LogStream = LogStream.STDOUT) -> LogRecord:
    return LogRecord(STAMP, NS, stream, partial, content)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"2016-10-06T00:17:09.669794202Z stdout F hello", record(b"hello")),
        (b"2016-10-06T00:17:09.669794202Z stdout F hello\n", record(b"hello")),
        (b"2016-10-06T00:17:09.669794202Z stdout F hello\r\n", record(b"hello\r")),
        (b"2016-10-06T00:17:09.669794202Z stderr P part ", record(b"part ", True, LogStream.STDERR)),
        (b"2016-10-06T00:17:09.669794202Z stdout F ", record(b"")),
        (b"2016-10-06T00:17:09.669794202Z stdout F:x:y two  words", record(b"two  words")),
        (b"2016-10-06T00:17:09.669794202Z stdout P:x piece", record(b"piece", True)),
        (
            b"2016-10-06T00:17:09.669794202Z stdout F 2016-10-06T00:17:09.669794202Z stderr F forged",
            record(b"2016-10-06T00:17:09.669794202Z stderr F forged"),
        ),
        (b"2016-10-06T00:17:09.669794202Z stdout F \xff\x00", record(b"\xff\x00")),
    ],
)
def test_line_of_a_cri_log_becomes_a_record(line: bytes, expected: LogRecord) -> None:
    assert parse_record(line) == expected


@pytest.mark.parametrize(
    ("stamp", "shown", "time_ns"),
    [
        ("1970-01-01T00:00:01Z", "1970-01-01T00:00:01.000000000Z", 1_000_000_000),
        ("1970-01-01T00:00:01.5Z", "1970-01-01T00:00:01.500000000Z", 1_500_000_000),
        ("1970-01-01T02:00:01.000000001+02:00", "1970-01-01T02:00:01.000000001+02:00", 1_000_000_001),
        ("1970-01-01T00:00:01.5+00:00", "1970-01-01T00:00:01.500000000Z", 1_500_000_000),
        ("1969-12-31T23:59:59.25Z", "1969-12-31T23:59:59.250000000Z", -750_000_000),
        ("2016-10-06T00:17:09.6697942029999Z", STAMP, NS),
    ],
)
def test_time_of_a_record_is_kept_and_converted(stamp: str, shown: str, time_ns: int) -> None:
    found = parse_record(f"{stamp} stdout F x".encode())
    assert found is not None
    assert (found.timestamp, found.time_ns) == (shown, time_ns)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"hello",
        b"2016-10-06T00:17:09Z",
        b"2016-10-06T00:17:09Z stdout",
        b"2016-10-06T00:17:09Z stdout F",
        b"2016-10-06T00:17:09Z stdin F x",
        b"2016-02-30T00:17:09Z stdout F x",
        b"2016-10-06T00:17:09 stdout F x",
        b"2016-10-06T00:17:09+99:99 stdout F x",
        b"yesterday stdout F x",
        b'{"log":"x","stream":"stdout","time":"2016-10-06T00:17:09Z"}',
        "２016-10-06T00:17:09Z stdout F x".encode(),
    ],
)
def test_malformed_lines_are_no_records(line: bytes) -> None:
    assert parse_record(line) is None


@settings(deadline=None)
@given(st.binary())
def test_any_bytes_can_be_read(data: bytes) -> None:
    for found in parse_records(data):
        assert b"\n" not in found.content


CONTENTS = st.lists(st.tuples(st.sampled_from(LogStream), st.booleans(), st.binary().filter(lambda b: b"\n" not in b)))


@settings(deadline=None)
@given(CONTENTS)
def test_log_lines_of_a_runtime_are_read_back(lines: list[tuple[LogStream, bool, bytes]]) -> None:
    data = b"".join(
        f"{STAMP} {stream} {'P' if partial else 'F'} ".encode() + content + b"\n" for stream, partial, content in lines
    )
    records = list(parse_records(data))
    assert records == [record(content, partial, stream) for stream, partial, content in lines]


@pytest.mark.parametrize(
    ("data", "count", "expected"),
    [
        (b"", 3, b""),
        (b"a\nb\nc\n", 2, b"b\nc\n"),
        (b"a\nb\nc\n", 3, b"a\nb\nc\n"),
        (b"a\nb\nc\n", 9, b"a\nb\nc\n"),
        (b"a\nb\nc\n", 0, b""),
        (b"a\nb\nc", 1, b"b\nc"),
        (b"a\nb\nc", 0, b"c"),
        (b"\n\n\n", 1, b"\n"),
    ],
)
def test_last_lines_are_cut_from_the_end(data: bytes, count: int, expected: bytes) -> None:
    assert last_lines(data, count) == expected
