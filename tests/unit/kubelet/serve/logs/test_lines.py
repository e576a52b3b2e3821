"""Formatting log records for a client."""

from hypothesis import given
from hypothesis import strategies as st

from pykubelet.kubelet.serve.common.server_types import LogOptions, LogStreams
from pykubelet.kubelet.serve.logs.plan.lines import LineWriter
from pykubelet.kubelet.types.crilog import LogRecord
from tests.unit.kubelet.serve.logs.records import START, record, stamp


def written(*records: LogRecord, options: LogOptions | None = None) -> bytes:
    writer = LineWriter(options or LogOptions())
    return writer.feed(records) + writer.flush()


def test_lines_of_both_streams_are_written_in_order() -> None:
    assert written(record("a"), record("", stream="stderr"), record("b")) == b"a\n\nb\n"


def test_pieces_are_joined_and_streams_do_not_mix() -> None:
    records = (
        record("out-", tag="P"),
        record("err-", tag="P", stream="stderr"),
        record("put"),
        record("or", stream="stderr"),
    )
    assert written(*records) == b"out-put\nerr-or\n"


def test_a_line_is_held_until_its_last_piece() -> None:
    writer = LineWriter(LogOptions())
    assert writer.feed([record("a", tag="P")]) == b""
    assert writer.feed([record("b", tag="P")]) == b""
    assert writer.feed([record("c")]) == b"abc\n"
    assert writer.feed([record("rest", tag="P")]) == b""
    assert writer.flush() == b"rest"
    assert writer.flush() == b""


def test_a_line_without_end_does_not_fill_the_memory() -> None:
    writer = LineWriter(LogOptions())
    piece = "x" * 600_000
    assert writer.feed([record(piece, tag="P")]) == b""
    assert writer.feed([record(piece, tag="P")]) == (piece * 2).encode()
    assert writer.flush() == b""


def test_times_stand_before_lines_not_pieces() -> None:
    options = LogOptions(timestamps=True)
    records = (record("a", tag="P", at=1), record("b", at=2), record("c", at=3))
    assert written(*records, options=options).decode() == f"{stamp(1)} ab\n{stamp(3)} c\n"


def test_lines_before_the_since_time_are_left_out() -> None:
    options = LogOptions(since_ns=(START + 2) * 1_000_000_000)
    assert written(*(record(str(i), at=i) for i in range(4)), options=options) == b"2\n3\n"


def test_lines_of_one_stream_are_written_alone() -> None:
    records = (record("o"), record("e", stream="stderr"))
    assert written(*records, options=LogOptions(streams=LogStreams.STDOUT)) == b"o\n"
    assert written(*records, options=LogOptions(streams=LogStreams.STDERR)) == b"e\n"


def test_lines_end_at_the_limit_of_bytes() -> None:
    writer = LineWriter(LogOptions(limit_bytes=5))
    got = [(writer.feed([record(text)]), writer.full) for text in ("abc", "def", "ghi")]
    assert got == [(b"abc\n", False), (b"d", True), (b"", True)]


@given(
    st.lists(
        st.tuples(st.sampled_from(["stdout", "stderr"]), st.sampled_from(["P", "F"]), st.text("ab", max_size=4)),
        max_size=30,
    )
)
def test_nothing_is_lost_and_streams_keep_their_order(pieces: list[tuple[str, str, str]]) -> None:
    records = [record(text, stream=stream, tag=tag) for stream, tag, text in pieces]
    for name, only in (("stdout", LogStreams.STDOUT), ("stderr", LogStreams.STDERR)):
        expected = b"".join(r.output for r in records if r.stream == name)
        assert written(*records, options=LogOptions(streams=only)) == expected
    assert len(written(*records)) == sum(len(r.output) for r in records)
