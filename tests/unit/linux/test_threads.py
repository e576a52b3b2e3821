"""Calls in threads of their own."""

import threading

import pytest

from pykubelet.base.errors import Conflict, Transient
from pykubelet.linux.threads import in_own_thread


def test_result_or_error_of_a_call_in_a_thread_is_passed_to_the_caller() -> None:
    assert in_own_thread("test", threading.current_thread).name == "test"

    def fail() -> None:
        raise Conflict("busy")

    with pytest.raises(Conflict, match="busy"):
        in_own_thread("test", fail)


def test_limit_of_threads_is_a_transient_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(Transient, match="a limit of processes or threads is reached"):
        in_own_thread("test", threading.current_thread)
