"""Whether a request is short, a stream or a check of health, by the pattern of its route. Pure."""

from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """What a request asks of the server."""

    HEALTH = "health checks"
    """Answered always, at once and in a few bytes."""
    SHORT = "requests"
    STREAM = "streams"
    """Logs, files, sessions, watches: as long as their clients like."""
    COMMAND = "commands"
    """Commands, log queries, checkpoints: they may take long, and their output is held in memory."""


_HEALTH: Final = ("/healthz", "/pykubelet/v1/healthz")
_STREAM_ROOTS: Final = frozenset({"exec", "attach", "portForward", "containerLogs", "logs"})
_COMMAND_ROOTS: Final = frozenset({"run", "checkpoint"})
_NODE_LOGS: Final = "logs"
_STREAM_ENDS: Final = frozenset({"exec", "attach", "portforward", "log"})
_OBJECTS: Final = "/api/"


def request_kind(pattern: str | None, *, watch: bool = False, log_query: bool = False) -> Kind:
    """The kind of a request by the pattern of the route that matched (None: an error answers it).

    ``watch``: the query asks for a watch, which the lists of the Kubernetes API understand. ``log_query``: it asks for
    the logs of services, which the node's logs understand.
    """
    if pattern is None:
        return Kind.SHORT
    if any(pattern == root or pattern.startswith(f"{root}/") for root in _HEALTH):
        return Kind.HEALTH
    first, last = pattern.split("/")[1], pattern.rpartition("/")[2]
    if pattern.startswith(_OBJECTS):
        return Kind.STREAM if watch or last in _STREAM_ENDS else Kind.SHORT
    if first in _COMMAND_ROOTS or (first == _NODE_LOGS and log_query):
        return Kind.COMMAND
    return Kind.STREAM if first in _STREAM_ROOTS else Kind.SHORT
