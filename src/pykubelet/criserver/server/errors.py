"""From our errors to gRPC codes: the only place."""

import logging
from urllib.parse import quote

from grpc import StatusCode

from pykubelet.base.errors import Conflict, Invalid, NotFound, Permanent, PykubeletError, Transient, Unsupported
from pykubelet.base.proc import ExitError, ProgramTimeout
from pykubelet.base.units import KIB
from pykubelet.criserver.images.types import Denied, Unauthenticated

_log = logging.getLogger(__name__)
_MOST_BYTES = 6 * KIB
"""gRPC's clients allow 8 KiB for all such headers."""
_KEPT = 1 * KIB - 8
"""Characters at each end of a longer message; even if all of them take three bytes they are few enough."""
_PLAIN = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")

# The first class that fits counts, so special ones stand before general ones.
_CODES: tuple[tuple[type[PykubeletError], StatusCode], ...] = (
    (NotFound, StatusCode.NOT_FOUND),
    (Conflict, StatusCode.ALREADY_EXISTS),
    (Invalid, StatusCode.INVALID_ARGUMENT),
    (Unsupported, StatusCode.UNIMPLEMENTED),
    (ProgramTimeout, StatusCode.DEADLINE_EXCEEDED),
    (ExitError, StatusCode.UNKNOWN),
    (Unauthenticated, StatusCode.UNAUTHENTICATED),
    (Denied, StatusCode.PERMISSION_DENIED),
    (Permanent, StatusCode.FAILED_PRECONDITION),
    (Transient, StatusCode.UNKNOWN),
)


def status_of(error: Exception, call: str) -> tuple[StatusCode, str]:
    """Code and message for a client. An error that nobody foresaw is logged with its trace."""
    if isinstance(error, BaseExceptionGroup):
        return status_of(_first(error), call)
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code, bounded(str(error))
    _log.error("a call failed for an unforeseen reason", extra={"call": call, "error": repr(error)}, exc_info=error)
    return StatusCode.INTERNAL, bounded(f"{call}: {error!r}")


def bounded(words: str) -> str:
    """A message that clients get: gRPC sends it as a header, and refuses the whole answer when that is too long.

    What an image or a request names may be as long as it likes, so the middle is left out.
    """
    # A file's name may be no text at all.
    words = words.encode("utf-8", "backslashreplace").decode()
    # As gRPC writes it: what is not plain ASCII takes three bytes for each of its own.
    if len(quote(words, safe=_PLAIN)) <= _MOST_BYTES:
        return words
    plain = words.encode("ascii", "backslashreplace").decode()
    return f"{plain[:_KEPT]} … {plain[-_KEPT:]}"


def _first(group: BaseExceptionGroup[BaseException]) -> Exception:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            return _first(error)
        if isinstance(error, Exception):
            return error
    return Permanent("cancelled")
