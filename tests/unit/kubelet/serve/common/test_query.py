"""Queries of log and exec requests."""

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.serve.common.plan.query import boolean, integer, log_options, stream_options
from pykubelet.kubelet.serve.common.server_types import LogOptions, LogStreams
from pykubelet.kubelet.serve.streams import StreamOptions

NOW = 1_700_000_000.0


def test_log_options_are_read_from_the_query() -> None:
    query = {
        "container": "app",
        "follow": "true",
        "previous": "1",
        "timestamps": "t",
        "tailLines": "10",
        "sinceSeconds": "60",
        "limitBytes": "100",
    }
    assert log_options(query, NOW) == LogOptions(
        container="app",
        follow=True,
        previous=True,
        timestamps=True,
        tail_lines=10,
        since_ns=1_699_999_940_000_000_000,
        limit_bytes=100,
    )
    assert log_options({}, NOW) == LogOptions()
    assert log_options({"stream": "Stderr"}, NOW).streams is LogStreams.STDERR


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        ("2023-11-14T22:13:20Z", 1_700_000_000_000_000_000),
        ("2023-11-14T22:13:20.5Z", 1_700_000_000_500_000_000),
        ("2023-11-15T00:13:20+02:00", 1_700_000_000_000_000_000),
        ("2023-11-14T22:13:20.123456789Z", 1_700_000_000_123_456_789),
        ("2023-11-14T22:13:20.000000001Z", 1_700_000_000_000_000_001),
        ("0001-01-01T00:00:00+14:00", -62_135_647_200_000_000_000),
    ],
)
def test_since_time_becomes_nanoseconds_since_the_epoch(moment: str, expected: int) -> None:
    assert log_options({"sinceTime": moment}, NOW).since_ns == expected


@pytest.mark.parametrize(
    "query",
    [
        {"tailLines": "-1"},
        {"tailLines": "ten"},
        {"tailLines": "9" * 40},
        {"tailLines": "\u0661"},
        {"sinceSeconds": "0"},
        {"sinceSeconds": "1.5"},
        {"limitBytes": "0"},
        {"sinceTime": "yesterday"},
        {"sinceTime": "2023-11-14T22:13:20"},
        {"sinceTime": "2023-11-14"},
        {"sinceTime": "\udcff"},
        {"sinceTime": "2023-02-30T22:13:20Z"},
        {"sinceTime": "2023-11-14T22:13:20Z\n"},
        {"sinceTime": "2023-11-14T22:13:2\u0661Z"},
        {"sinceSeconds": "5", "sinceTime": "2023-11-14T22:13:20Z"},
        {"follow": "perhaps"},
        {"stream": "stdin"},
        {"stream": "Stdout", "tailLines": "5"},
    ],
)
def test_wrong_log_options(query: dict[str, str]) -> None:
    with pytest.raises(Invalid, match=list(query)[-1]):
        log_options(query, NOW)


def test_exec_options_are_read_from_the_query() -> None:
    query = {"container": "app", "stdin": "true", "stdout": "true", "tty": "true"}
    assert stream_options(query, ["ls", "-l"], attach=False) == StreamOptions(
        container="app", command=("ls", "-l"), stdin=True, stdout=True, tty=True
    )
    assert stream_options({"stdout": "1"}, [], attach=True).stdout


@pytest.mark.parametrize(
    ("query", "command", "match"),
    [
        ({"stdout": "true"}, [], "command"),
        ({}, ["ls"], "at least one"),
        ({"stdout": "true", "stderr": "true", "tty": "true"}, ["sh"], "stderr"),
        ({"stdout": "maybe"}, ["sh"], "stdout"),
    ],
)
def test_wrong_exec_options(query: dict[str, str], command: list[str], match: str) -> None:
    with pytest.raises(Invalid, match=match):
        stream_options(query, command, attach=False)


@pytest.mark.parametrize(
    ("value", "expected"), [("true", True), ("1", True), ("", True), ("false", False), ("0", False), ("F", False)]
)
def test_boolean_parameter_has_the_values_of_go(value: str, expected: bool) -> None:
    assert boolean({"x": value}, "x") is expected
    assert boolean({}, "x") is False


def test_integer_parameter_may_be_missing_or_zero() -> None:
    assert (integer({"x": "0"}, "x"), integer({}, "x")) == (0, None)
