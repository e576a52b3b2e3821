"""Termination messages."""

import pytest

from pykubelet.kubelet.actuate.cri_messages import termination

STAMP = b"2026-01-02T03:04:05.000000006Z"


def log(*lines: bytes) -> bytes:
    return b"".join(STAMP + b" stdout F " + line + b"\n" for line in lines)


@pytest.mark.parametrize(
    ("policy", "exit_code", "reason", "file", "wanted"),
    [
        ("FallbackToLogsOnError", 1, "Error", None, True),
        ("FallbackToLogsOnError", 1, "Error", b"", True),
        ("FallbackToLogsOnError", 1, "Error", b"said", False),
        ("FallbackToLogsOnError", 0, "Completed", None, False),
        ("FallbackToLogsOnError", 128, "ContainerCannotRun", None, False),
        ("File", 1, "Error", None, False),
        ("", 1, "Error", None, False),
    ],
)
def test_log_is_wanted_after_a_failure_without_a_message_file(
    policy: str, exit_code: int, reason: str, file: bytes | None, wanted: bool
) -> None:
    assert termination.wants_log(policy, exit_code, reason, file) is wanted


@pytest.mark.parametrize(
    ("runtime", "file", "tail", "message"),
    [
        ("", None, None, ""),
        ("", b"bye\n", None, "bye\n"),
        ("oom", b"bye", None, "oom: bye"),
        ("oom", b"", b"", "oom"),
        ("", None, log(b"one", b"two"), "one\ntwo\n"),
        ("", b"said", log(b"one"), "said"),
        ("", b"\xff", None, "\ufffd"),
        ("", b"a" * 10 + b"b" * 4096, None, "b" * 4096),
    ],
)
def test_termination_message_joins_reason_file_and_log(
    runtime: str, file: bytes | None, tail: bytes | None, message: str
) -> None:
    assert termination.termination_message(runtime, file, tail) == message


def test_the_log_counts_eighty_lines_and_two_kilobytes() -> None:
    assert termination.log_end(log(*(b"%d" % i for i in range(100)))) == b"".join(b"%d\n" % i for i in range(20, 100))
    assert termination.log_end(log(b"x" * 3000, b"y" * 2000)) == b"x" * 46 + b"\n" + b"y" * 2000 + b"\n"
    assert len(termination.log_end(log(b"z" * 16384))) == 2048


def test_the_log_may_begin_in_the_middle_of_a_line() -> None:
    assert termination.log_end(log(b"first", b"second")[20:]) == b"second\n"


def test_pieces_of_a_line_stay_together() -> None:
    lines = STAMP + b" stdout P one \n" + STAMP + b" stdout P long \n" + STAMP + b" stdout F line\n"
    assert termination.log_end(lines) == b"one long line\n"
