"""Errors of the API server, classified by what the caller can do about them."""

from typing import Final

from pykubelet.apiclient.weights import excessive
from pykubelet.base.errors import Conflict, Invalid, NotFound, Permanent, PykubeletError, Transient
from pykubelet.base.units import Seconds
from pykubelet.models.codec import decode
from pykubelet.models.meta_v1 import Status

_SHOWN: Final = 300
_MESSAGE: Final = 4 << 10
"""Maximum characters of a message of the API server."""
_MAX_RETRY_AFTER: Final[Seconds] = 300.0
"""A server that asks for a longer delay would take the node out of service for that time."""


class Unauthorized(Transient):
    """The API server rejected the credentials: they are wrong or have expired, and may be renewed."""


class Forbidden(Permanent):
    """The API server knows the client but does not allow the request."""


class ServerError(Transient):
    """The API server failed at this request (500), as it does when an admission webhook is not available."""


class AlreadyExists(Conflict):
    """An object of that name exists already."""


class Expired(Conflict):
    """The resource version to continue from is no longer available: list again."""


def error_of(status: Status, what: str, retry_after: float | None = None) -> PykubeletError:
    """Return the error for a Status object; ``what`` names the request (``patch pods default/web``)."""
    code = status.code or 0
    said = status.message or status.reason or f"HTTP status {code}"
    text = f"{what}: {said if len(said) <= _MESSAGE else f'{said[:_MESSAGE]}…'}"
    if retry_after is None and status.details is not None and status.details.retry_after_seconds:
        retry_after = status.details.retry_after_seconds
    if retry_after is not None:
        retry_after = float(min(max(retry_after, 0), _MAX_RETRY_AFTER))
    match code:
        case 404:
            return NotFound(text)
        case 409:
            return AlreadyExists(text) if status.reason == "AlreadyExists" else Conflict(text)
        case 410:
            return Expired(text)
        case 401:
            return Unauthorized(text, retry_after)
        case 403:
            return Forbidden(text)
        case 408 | 429:
            return Transient(text, retry_after)
        case 500:
            return ServerError(text, retry_after)
        case _ if code >= 500 or code < 400:
            return Transient(text, retry_after)
    return Invalid(text)


def error_of_response(code: int, body: bytes, what: str, retry_after: str = "") -> PykubeletError:
    """Return the error for an HTTP answer other than success; the body may or may not be a Status."""
    status = Status(code=code)
    try:
        if excessive(body):
            raise Invalid("more values than an object of the API server has")
        answer = decode(body, Status)
        if answer.kind == "Status":
            status = Status(code=code, message=answer.message, reason=answer.reason, details=answer.details)
    except Invalid:
        status = Status(code=code, message=f"HTTP status {code}: {body[:_SHOWN].decode(errors='replace').strip()}")
    return error_of(status, what, float(retry_after) if retry_after.isdecimal() else None)
