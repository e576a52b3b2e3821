"""From our errors to gRPC codes: the only place."""

import logging

from grpc import StatusCode

from pykubelet.base.errors import Conflict, Invalid, NotFound, Permanent, PykubeletError, Transient, Unsupported
from pykubelet.base.proc import ExitError, ProgramTimeout
from pykubelet.criserver.images.types import Denied, Unauthenticated

_log = logging.getLogger(__name__)

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
            return code, str(error)
    _log.error("a call failed for an unforeseen reason", extra={"call": call, "error": repr(error)}, exc_info=error)
    return StatusCode.INTERNAL, f"{call}: {error!r}"


def _first(group: BaseExceptionGroup[BaseException]) -> Exception:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            return _first(error)
        if isinstance(error, Exception):
            return error
    return Permanent("cancelled")
