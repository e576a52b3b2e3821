"""Errors as Status objects."""

import pytest

from pykubelet.base.errors import Conflict, Invalid, NotFound, Permanent, PykubeletError, Transient
from pykubelet.kubelet.serve.common.api_status import error_status, failure
from pykubelet.kubelet.serve.common.plan.query import InvalidOption, InvalidParameter
from pykubelet.models.meta_v1 import StatusCause, StatusDetails


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (NotFound("m"), 404, "NotFound"),
        (Invalid("m"), 400, "BadRequest"),
        (Conflict("m"), 409, "Conflict"),
        (Transient("m"), 503, "ServiceUnavailable"),
        (Permanent("m"), 500, "InternalError"),
    ],
)
def test_error_becomes_a_status_with_code_and_reason(error: PykubeletError, code: int, reason: str) -> None:
    status = error_status(error)
    assert (status.code, status.reason, status.message) == (code, reason, "m")
    assert (status.api_version, status.kind, status.status, status.details) == ("v1", "Status", "Failure", None)


def test_retry_after_becomes_a_status_detail() -> None:
    assert error_status(Transient("m", retry_after=2.6)).details == StatusDetails(retry_after_seconds=3)
    assert error_status(Transient("m", retry_after=0.1)).details == StatusDetails(retry_after_seconds=1)


def test_wrong_parameter_is_named_as_the_field_of_a_cause() -> None:
    for error, code in ((InvalidParameter("labelSelector", "m"), 400), (InvalidOption("tailLines", "m"), 422)):
        status = error_status(error)
        cause = StatusCause(reason="FieldValueInvalid", field=error.name, message="m")
        assert (status.code, status.message, status.details) == (code, "m", StatusDetails(causes=(cause,)))


def test_unknown_code_has_no_reason() -> None:
    assert failure(418, "teapot").reason == ""
