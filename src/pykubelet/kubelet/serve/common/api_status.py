"""Errors as Status objects, which clients of the Kubernetes API expect. Pure."""

from typing import Final

from pykubelet.base.errors import Conflict, Invalid, NotFound, PykubeletError, Transient
from pykubelet.kubelet.serve.common.plan.query import InvalidOption, InvalidParameter
from pykubelet.models.meta_v1 import Status, StatusCause, StatusDetails

_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def failure(code: int, message: str, *, details: StatusDetails | None = None) -> Status:
    """Return the Status of a failed request."""
    return Status(
        api_version="v1",
        kind="Status",
        status="Failure",
        code=code,
        reason=_REASONS.get(code, ""),
        message=message,
        details=details,
    )


def error_status(error: PykubeletError) -> Status:
    """Return the Status for one of this project's errors."""
    details = None
    match error:
        case NotFound():
            code = 404
        case InvalidOption():
            code = 422
        case Invalid():
            code = 400
        case Conflict():
            code = 409
        case Transient():
            code = 503
            if error.retry_after is not None:
                details = StatusDetails(retry_after_seconds=max(1, round(error.retry_after)))
        case _:
            code = 500
    if isinstance(error, InvalidParameter):
        cause = StatusCause(reason="FieldValueInvalid", field=error.name, message=str(error))
        details = StatusDetails(causes=(cause,))
    return failure(code, str(error), details=details)
