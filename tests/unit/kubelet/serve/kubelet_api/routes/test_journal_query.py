"""Queries for the node's logs."""

import time
from datetime import UTC, datetime

import pytest

from pykubelet.kubelet.serve.kubelet_api.plan.log_query import (
    BadQueryError,
    LogQuery,
    NodeLogOptions,
    RefusedQueryError,
    journal_command,
    log_query,
)

AT = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, None),
        ({"query": ["kubelet"]}, LogQuery(("kubelet",))),
        ({"query": ["a", " ", "b"], "tailLines": ["5"]}, LogQuery(("a", "b"), options=NodeLogOptions(tail=5))),
        ({"query": ["/foo.log"]}, LogQuery(file="/foo.log")),
        ({"query": ["dir\\foo.log"]}, LogQuery(file="dir/foo.log")),
        (
            {"query": ["a"], "sinceTime": ["2026-01-31T12:00:00Z"], "boot": ["-1"], "pattern": ["x|y"]},
            LogQuery(("a",), options=NodeLogOptions(since=AT, boot=-1, pattern="x|y")),
        ),
    ],
)
def test_log_query_is_read_from_the_parameters(query: dict[str, list[str]], expected: LogQuery | None) -> None:
    assert log_query(query) == expected


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"query": ["  "]}, "cannot be empty"),
        ({"query": ["a"], "sinceTime": ["yesterday"]}, "invalid time format"),
        ({"query": ["a"], "untilTime": ["2026-01-31T12:00:00"]}, "zone"),
        ({"query": ["a"], "sinceTime": ["0001-01-01T00:00:00+14:00"]}, "years 1 and 9999"),
        ({"query": ["a"], "untilTime": ["9999-12-31T23:59:59-14:00"]}, "years 1 and 9999"),
        ({"query": ["a"], "boot": ["x"]}, "boot"),
    ],
)
def test_malformed_journal_query_is_rejected_with_the_reason(query: dict[str, list[str]], text: str) -> None:
    with pytest.raises(BadQueryError, match=text):
        log_query(query)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"query": ["a", "/b"]}, "a file and service"),
        ({"query": ["/a", "/b"]}, "more than one file"),
        ({"query": ["/a"], "boot": ["0"]}, "file with options"),
        ({"query": ["a; reboot"]}, "unsupported characters"),
        ({"query": ["$(reboot)"]}, "unsupported characters"),
        ({"query": ["a" * 257]}, "length"),
        ({"query": list("abcde")}, "at most 4"),
        ({"query": ["a"], "boot": ["1"]}, "less than 1"),
        ({"query": ["a"], "tailLines": ["100001"]}, "between 0 and 100000"),
        ({"pattern": ["x"]}, "need a service"),
        (
            {"query": ["a"], "sinceTime": ["2026-01-31T12:00:01Z"], "untilTime": ["2026-01-31T12:00:00Z"]},
            "must be after",
        ),
    ],
)
def test_contradictory_journal_query_is_rejected_with_the_reason(query: dict[str, list[str]], text: str) -> None:
    with pytest.raises(RefusedQueryError, match=text):
        log_query(query)


@pytest.mark.parametrize("pattern", ["(?i)" + "[\0-\uffff]" * 2000, "(" * 5000, "a{99999999999}", r"\K(?<name>x)"])
def test_pattern_is_left_to_journalctl_and_costs_the_agent_nothing(pattern: str) -> None:
    """Python's compiler took 118 s for 40,000 characters, in which the whole agent stood still."""
    begin = time.monotonic()
    found = log_query({"query": ["a"], "pattern": [pattern]})
    assert found is not None and found.options.pattern == pattern
    assert time.monotonic() - begin < 20


def test_journal_command_has_the_options_of_the_query() -> None:
    options = NodeLogOptions(since=AT, until=AT.replace(hour=13), tail=7, boot=0, pattern="oops")
    assert journal_command(LogQuery(("kubelet", "sshd"), options=options)) == [
        *("journalctl", "--utc", "--no-pager", "--output=short-precise"),
        *("--since=2026-01-31 12:00:00", "--until=2026-01-31 13:00:00", "--pager-end", "--lines=7"),
        *("--unit=kubelet", "--unit=sshd", "--grep=oops", "--case-sensitive=false", "--boot=0"),
    ]
