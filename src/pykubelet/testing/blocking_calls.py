"""Counts blocking calls: each costs a hand-over to a thread and one back."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

from pykubelet.base.concurrency import blocking, thread_calls


@contextmanager
def blocking_calls() -> Iterator[list[str]]:
    """Yield the names of the functions that threads are to run in the block, in the order of the calls."""
    names: list[str] = []

    def noted(owner: str, function: Any, **limits: Any) -> "thread_calls.Job[Any]":
        inner = function
        while isinstance(inner, partial):
            inner = inner.func
        names.append(inner.__qualname__.rpartition("<locals>.")[2])
        return thread_calls.Job(owner, function, **limits)

    with patch.object(blocking, "Job", noted):
        yield names
