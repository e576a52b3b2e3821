"""Events between components: a value that the producer and its consumers receive when they are built.

It lets components that need each other be built one after the other, without setters.
"""

from collections.abc import Callable
from typing import Generic, ParamSpec

P = ParamSpec("P")


class Callbacks(Generic[P]):
    """The functions called with each event, in the order of their subscription. For one thread.

    An exception of a function reaches the producer; the functions after it are not called.
    """

    def __init__(self, *functions: Callable[P, object]) -> None:
        """``functions`` are the first ones to be called."""
        self._functions: list[Callable[P, object]] = list(functions)

    def subscribe(self, function: Callable[P, object]) -> None:
        """Call ``function`` with every event from now on."""
        self._functions.append(function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Report an event."""
        for function in tuple(self._functions):
            function(*args, **kwargs)
