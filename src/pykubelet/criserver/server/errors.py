"""Maps the errors of ``pykubelet.base.errors`` to gRPC codes and messages; the only place that does."""

import logging
from urllib.parse import quote

from grpc import StatusCode

from pykubelet.base.errors import Conflict, Invalid, NotFound, Permanent, PykubeletError, Transient, Unsupported
from pykubelet.base.proc import ExitError, ProgramTimeout
from pykubelet.base.units import KIB
from pykubelet.criserver.images.image_types import Denied, SignatureRejected, Unauthenticated

_log = logging.getLogger(__name__)
_MOST_BYTES = 6 * KIB
"""gRPC clients accept 8 KiB for all headers."""
_KEPT = 1 * KIB - 8
"""Characters kept at each end of a longer message; few enough even if each takes three bytes."""
_PLAIN = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")

# The first matching class counts, so subclasses precede their base classes.
_CODES: tuple[tuple[type[PykubeletError], StatusCode], ...] = (
    (NotFound, StatusCode.NOT_FOUND),
    (Conflict, StatusCode.ALREADY_EXISTS),
    (Invalid, StatusCode.INVALID_ARGUMENT),
    (Unsupported, StatusCode.UNIMPLEMENTED),
    (ProgramTimeout, StatusCode.DEADLINE_EXCEEDED),
    (ExitError, StatusCode.UNKNOWN),
    (Unauthenticated, StatusCode.UNAUTHENTICATED),
    (Denied, StatusCode.PERMISSION_DENIED),
    # Kubelets look at the text only if the code is UNKNOWN.
    (SignatureRejected, StatusCode.UNKNOWN),
    (Permanent, StatusCode.FAILED_PRECONDITION),
    (Transient, StatusCode.UNKNOWN),
)


def status_of(error: Exception, call: str) -> tuple[StatusCode, str]:
    """Return code and message for a client. An unexpected error is logged with its traceback."""
    if isinstance(error, BaseExceptionGroup):
        return status_of(_first(error), call)
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code, bounded(str(error))
    _log.error("call failed: unexpected error", extra={"call": call, "error": repr(error)}, exc_info=error)
    return StatusCode.INTERNAL, bounded(f"{call}: {error!r}")


def bounded(message: str) -> str:
    """Limit an error message: gRPC sends it as a header, and rejects the whole response if that is too long.

    Names in images and requests may be of any length, so the middle is left out.
    """
    # File names may contain invalid UTF-8.
    message = message.encode("utf-8", "backslashreplace").decode()
    # gRPC percent-encodes all bytes except printable ASCII: three bytes for each.
    if len(quote(message, safe=_PLAIN)) <= _MOST_BYTES:
        return message
    plain = message.encode("ascii", "backslashreplace").decode()
    return f"{plain[:_KEPT]} … {plain[-_KEPT:]}"


def _first(group: BaseExceptionGroup[BaseException]) -> Exception:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            return _first(error)
        if isinstance(error, Exception):
            return error
    return Permanent("cancelled")
