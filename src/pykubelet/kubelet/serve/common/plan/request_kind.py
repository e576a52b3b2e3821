"""Classifies requests by route pattern: health check, short request, stream or command. Pure."""

from enum import StrEnum
from typing import Final


class RequestKind(StrEnum):
    """Cost class of a request to the server; values appear in error messages."""

    HEALTH = "health checks"
    """Always answered, at once and in a few bytes."""
    SHORT = "requests"
    STREAM = "streams"
    """Logs, files, sessions, watches: last as long as their clients like."""
    COMMAND = "commands"
    """Commands, log queries, checkpoints: may take long, and their output is held in memory."""


_HEALTH: Final = ("/healthz", "/pykubelet/v1/healthz")
_STREAM_ROOTS: Final = frozenset({"exec", "attach", "portForward", "containerLogs", "logs"})
_COMMAND_ROOTS: Final = frozenset({"run", "checkpoint"})
_NODE_LOGS: Final = "logs"
_STREAM_ENDS: Final = frozenset({"exec", "attach", "portforward", "log"})
_OBJECTS: Final = "/api/"


def request_kind(pattern: str | None, *, watch: bool = False, log_query: bool = False) -> RequestKind:
    """Return the kind of a request by the pattern of the matched route (None: no route, an error answers it).

    ``watch``: the query asks for a watch, which the list routes of the Kubernetes API support. ``log_query``: the query
    asks for the logs of services, which ``/logs/`` supports.
    """
    if pattern is None:
        return RequestKind.SHORT
    if any(pattern == root or pattern.startswith(f"{root}/") for root in _HEALTH):
        return RequestKind.HEALTH
    first, last = pattern.split("/")[1], pattern.rpartition("/")[2]
    if pattern.startswith(_OBJECTS):
        return RequestKind.STREAM if watch or last in _STREAM_ENDS else RequestKind.SHORT
    if first in _COMMAND_ROOTS or (first == _NODE_LOGS and log_query):
        return RequestKind.COMMAND
    return RequestKind.STREAM if first in _STREAM_ROOTS else RequestKind.SHORT
