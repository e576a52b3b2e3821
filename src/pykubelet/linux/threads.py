"""Calls that change what belongs to a thread: its namespaces, its working directory."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from pykubelet.base.errors import Transient

_T = TypeVar("_T")


class _Result(Generic[_T]):
    value: _T
    error: BaseException | None = None


def in_own_thread(name: str, function: Callable[[], _T]) -> _T:
    """Run the function in a thread that ends with it. Blocks; returns its result or raises its error.

    Transient: no thread can be started, since a limit of processes is reached.
    """
    result: _Result[_T] = _Result()

    def body() -> None:
        try:
            result.value = function()
        except BaseException as error:
            result.error = error

    thread = threading.Thread(target=body, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        raise Transient(f"cannot start a thread ({name}): a limit of processes or threads is reached") from error
    thread.join()
    if result.error is not None:
        raise result.error
    return result.value
