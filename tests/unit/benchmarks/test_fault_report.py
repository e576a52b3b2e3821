"""The page of results, and the table of faults behind it."""

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.faults import report
from benchmarks.faults.model import Result, Subject, TryResult
from benchmarks.faults.options import Options
from benchmarks.faults.report import Run
from benchmarks.faults.table import FAULTS

_RUN = Run(2, Options(), {"runc": "1.1.5"}, "2026-01-02", 3.0)


def _results() -> list[Result]:
    good = Result(
        "agent-killed", Subject.OURS, [TryResult(recovery=0.5, seconds=2.0), TryResult(recovery=1.5, seconds=3.0)]
    )
    bad = Result(
        "agent-killed", Subject.CONTAINERD, [TryResult(lost=["a: not\nrunning"])], Counter({"mount": 2}), ["mount: /x"]
    )
    return [good, bad]


def test_result_with_nothing_wrong_has_not_failed() -> None:
    good, bad = _results()
    assert not good.failed
    assert bad.failed
    assert (good.p50, good.worst, bad.p50) == (1.0, 1.5, None)


@pytest.mark.parametrize("what", ["lost", "duplicated", "restarted"])
def test_result_with_one_thing_wrong_has_failed(what: str) -> None:
    spoilt = TryResult()
    getattr(spoilt, what).append("y")
    assert Result("x", Subject.OURS, [TryResult(), spoilt]).failed


def test_result_with_leak_has_failed() -> None:
    assert Result("x", Subject.OURS, [TryResult()], Counter(file=1)).failed


def test_result_whose_daemon_ended_by_itself_has_not_failed_for_that() -> None:
    assert not Result("x", Subject.OURS, [TryResult(ended=["agent"])]).failed


def test_markdown_shows_each_subject_and_what_was_wrong() -> None:
    text = report.markdown(FAULTS, _results(), _RUN)
    assert "| pykubelet | 1 | 2 | **0** | **0** | **0** | **0** | 1.0 s | 1.5 s |" in text
    assert "| pykubelet on containerd | 1 | 1 | **1** | **0** | **0** | **2** | – | – |" in text
    assert "lost: a: not running" in text
    assert "| pykubelet on containerd | 0 | 2 | 0 |" in text, "leaks by kind"


def test_markdown_names_every_fault_that_was_done_once() -> None:
    results = [Result(fault.name, Subject.OURS, [TryResult(recovery=0.1)]) for fault in FAULTS]
    text = report.markdown(FAULTS, results, _RUN)
    assert all(text.count(f"| `{fault.name}` | {fault.what} |") == 1 for fault in FAULTS)


def test_json_read_back_gives_the_same_results(tmp_path: Path) -> None:
    report.write_json(tmp_path / "new" / "faults.json", _results(), _RUN)
    assert report.read_json(tmp_path / "new" / "faults.json") == (_results(), _RUN.minutes)


def test_bar_grows_with_the_seconds_up_to_a_limit() -> None:
    bars = [report.bar(seconds) for seconds in (0.0, 1.0, 5.0, 24.0, 100.0)]
    assert [len(each) for each in bars] == sorted(len(each) for each in bars)
    assert bars[0] != bars[1]
    assert bars[3] == bars[4] == "█" * 12
    assert report.bar(None) == ""


def test_table_has_at_least_thirty_faults_of_different_names() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 30
    assert all(fault.what and "|" not in fault.what for fault in FAULTS)
