"""The API server is away, slow, refuses, expires or breaks off watches. Each act injects on entry, heals on exit.

The node runs pods of the API server beside its manifests here: one of them is replaced while or after the fault lasts.
"""

import contextlib
from collections.abc import Callable, Iterator

from benchmarks.faults.node import Node
from pykubelet.testing.fake_api import Fault

_MANY = 1_000_000
_RETRY_SECONDS = 1


@contextlib.contextmanager
def away(node: Node) -> Iterator[None]:
    """Nothing listens there."""
    node.api.go_away()
    yield
    node.api.come_back()
    node.roll_api()


def answering(*faults: Callable[[], Fault]) -> Callable[[Node], contextlib.AbstractContextManager[None]]:
    """Requests are treated so for a while; watches begin again."""

    @contextlib.contextmanager
    def act(node: Node) -> Iterator[None]:
        node.api.fail(*(fault() for fault in faults))
        node.api.break_watches()
        node.roll_api()
        try:
            yield
        finally:
            node.api.fail()

    return act


def slow() -> Fault:
    """Each answer takes two seconds."""
    return Fault(".", delay=2.0, times=_MANY)


def internal_error() -> Fault:
    """500 to everything."""
    return Fault(".", status=500, times=_MANY)


def too_many_requests() -> Fault:
    """429 with Retry-After to everything."""
    return Fault(".", status=429, retry_after=_RETRY_SECONDS, times=_MANY)


def unauthorized() -> Fault:
    """401 to everything."""
    return Fault(".", status=401, times=_MANY)


def dropped() -> Fault:
    """Connections are closed without an answer."""
    return Fault(".", drop=True, times=_MANY)


def truncated() -> Fault:
    """Watches end in the middle of an event."""
    return Fault("watch=true", truncate=True, times=_MANY)


def corrupt_lists() -> Fault:
    """Lists hold one object that no client can decode."""
    return Fault("^GET (?!.*watch=true)", corrupt=True, times=_MANY)


@contextlib.contextmanager
def expired(node: Node) -> Iterator[None]:
    """410: all watches begin from versions that the server has forgotten."""
    node.api.fail(Fault("watch=true", status=410, message="too old resource version", times=20))
    node.roll_api()
    node.api.compact()
    node.api.break_watches()
    try:
        yield
    finally:
        node.api.fail()
