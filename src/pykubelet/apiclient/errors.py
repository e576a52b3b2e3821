"""Answers of the API server as errors of this project: what a caller can do about them decides the type."""

from typing import Final

from pykubelet.base.errors import Conflict, Invalid, NotFound, Permanent, PykubeletError, Transient
from pykubelet.models.codec import decode
from pykubelet.models.meta_v1 import Status

_SHOWN: Final = 300


class Unauthorized(Transient):
    """The API server does not know who we are: the credentials are wrong or have expired, and may be renewed."""


class Forbidden(Permanent):
    """The API server knows who we are, and we may not."""


class AlreadyExists(Conflict):
    """An object of that name is there already."""


class Expired(Conflict):
    """The resource version to go on from is no longer kept: list anew."""


def error_of(status: Status, what: str, retry_after: float | None = None) -> PykubeletError:
    """The error for a Status object; ``what`` says what was asked (``patch pods default/web``)."""
    code = status.code or 0
    text = f"{what}: {status.message or status.reason or f'HTTP status {code}'}"
    if retry_after is None and status.details is not None and status.details.retry_after_seconds:
        retry_after = float(status.details.retry_after_seconds)
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
        case _ if code >= 500 or code < 400:
            return Transient(text, retry_after)
    return Invalid(text)


def error_of_response(code: int, body: bytes, what: str, retry_after: str = "") -> PykubeletError:
    """The error for an HTTP answer that is none of success; the body may or may not be a Status."""
    status = Status(code=code)
    try:
        told = decode(body, Status)
        if told.kind == "Status":
            status = Status(code=code, message=told.message, reason=told.reason, details=told.details)
    except Invalid:
        status = Status(code=code, message=f"HTTP status {code}: {body[:_SHOWN].decode(errors='replace').strip()}")
    return error_of(status, what, float(retry_after) if retry_after.isdecimal() else None)
