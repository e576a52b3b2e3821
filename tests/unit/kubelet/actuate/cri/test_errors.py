import pytest
from grpc import StatusCode

from pykubelet.base.errors import (
    Conflict,
    Invalid,
    NotFound,
    Permanent,
    PykubeletError,
    Transient,
    Unsupported,
)
from pykubelet.kubelet.actuate.cri.errors import CriError, cri_error


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (StatusCode.NOT_FOUND, NotFound),
        (StatusCode.ALREADY_EXISTS, Conflict),
        (StatusCode.INVALID_ARGUMENT, Invalid),
        (StatusCode.OUT_OF_RANGE, Invalid),
        (StatusCode.UNIMPLEMENTED, Unsupported),
        (StatusCode.FAILED_PRECONDITION, Permanent),
        (StatusCode.PERMISSION_DENIED, Permanent),
        (StatusCode.UNAUTHENTICATED, Permanent),
        (StatusCode.UNAVAILABLE, Transient),
        (StatusCode.RESOURCE_EXHAUSTED, Transient),
        (StatusCode.DEADLINE_EXCEEDED, Transient),
        (StatusCode.UNKNOWN, Transient),
        (StatusCode.INTERNAL, Transient),
        (StatusCode.ABORTED, Transient),
        (StatusCode.CANCELLED, Transient),
        (StatusCode.DATA_LOSS, Transient),
    ],
)
def test_grpc_code_selects_the_error_class(code: StatusCode, kind: type[PykubeletError]) -> None:
    error = cri_error(code, "StartContainer", "ns/pod/app", "it broke")
    assert isinstance(error, kind)
    assert error.code is code


def test_unsupported_is_distinguished_from_other_refusals() -> None:
    assert not isinstance(cri_error(StatusCode.FAILED_PRECONDITION, "Exec", "", ""), Unsupported)


def test_message_names_call_object_cause_and_code() -> None:
    error = cri_error(StatusCode.UNKNOWN, "RunPodSandbox", "ns/pod", "no IP left")
    assert str(error) == "RunPodSandbox ns/pod: no IP left (UNKNOWN)"
    assert (error.call, error.target, error.details) == ("RunPodSandbox", "ns/pod", "no IP left")


def test_error_without_object_or_cause_names_call_and_code() -> None:
    assert str(cri_error(StatusCode.INTERNAL, "Version", "", "")) == "Version: no message (INTERNAL)"


def test_transient_error_has_no_delay_of_its_own() -> None:
    error = cri_error(StatusCode.UNAVAILABLE, "Version", "", "down")
    assert isinstance(error, Transient)
    assert error.retry_after is None


@pytest.mark.parametrize("kind", ["sandbox", "container"])
def test_containerd_reports_a_taken_name_without_a_code(kind: str) -> None:
    details = f'failed to reserve {kind} name "a_b": name "a_b" is reserved for "0123"'
    error: CriError = cri_error(StatusCode.UNKNOWN, "RunPodSandbox", "ns/pod", details)
    assert isinstance(error, Conflict)
