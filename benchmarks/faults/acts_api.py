"""Faults of the API server: unavailable, slow, errors, broken watches. Each act injects on entry, heals on exit.

The node runs pods of the API server and of manifests: one of the former is replaced during or after the fault.
"""

import contextlib
from collections.abc import Callable, Iterator

from benchmarks.faults.node import Node
from pykubelet.testing.fake_api import Fault

_MANY = 1_000_000
_RETRY_SECONDS = 1


@contextlib.contextmanager
def away(node: Node) -> Iterator[None]:
    """The API server does not listen."""
    node.api.go_away()
    yield
    node.api.serve_again()
    node.roll_api()


def answering(*faults: Callable[[], Fault]) -> Callable[[Node], contextlib.AbstractContextManager[None]]:
    """Requests get these faults for a while; all watches are broken first."""

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
    """Each response takes two seconds."""
    return Fault(".", delay=2.0, times=_MANY)


def internal_error() -> Fault:
    """Every request gets 500."""
    return Fault(".", status=500, times=_MANY)


def too_many_requests() -> Fault:
    """Every request gets 429 with Retry-After."""
    return Fault(".", status=429, retry_after=_RETRY_SECONDS, times=_MANY)


def unauthorized() -> Fault:
    """Every request gets 401."""
    return Fault(".", status=401, times=_MANY)


def dropped() -> Fault:
    """Connections are closed without a response."""
    return Fault(".", drop=True, times=_MANY)


def truncated() -> Fault:
    """Watches end in the middle of an event."""
    return Fault("watch=true", truncate=True, times=_MANY)


def corrupt_lists() -> Fault:
    """Lists contain one object that no client can decode."""
    return Fault("^GET (?!.*watch=true)", corrupt=True, times=_MANY)


@contextlib.contextmanager
def expired(node: Node) -> Iterator[None]:
    """Watches get 410: they start from versions that the server has compacted."""
    node.api.fail(Fault("watch=true", status=410, message="too old resource version", times=20))
    node.roll_api()
    node.api.compact()
    node.api.break_watches()
    try:
        yield
    finally:
        node.api.fail()
