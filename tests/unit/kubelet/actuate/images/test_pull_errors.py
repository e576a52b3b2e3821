"""Errors of the runtime during a pull: texts, and whether the pull may go on."""

import pytest
from grpc import StatusCode

from pykubelet.base.errors import PykubeletError, Transient
from pykubelet.kubelet.actuate.cri.errors import CriError
from pykubelet.kubelet.actuate.images.pull_errors import combined, error_message, may_go_on


def of_runtime(code: StatusCode, details: str = "no") -> CriError:
    return CriError(code, "PullImage", "app:1", details)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Transient("pull QPS exceeded"), "pull QPS exceeded"),
        (of_runtime(StatusCode.UNKNOWN, "no route to host"), "no route to host"),
        (of_runtime(StatusCode.FAILED_PRECONDITION), "rpc error: code = FailedPrecondition desc = no"),
    ],
)
def test_text_of_an_error_has_the_code_of_the_runtime_unless_it_is_unknown(error: PykubeletError, text: str) -> None:
    assert error_message(error) == text


def test_one_error_stays_as_it_is_and_several_become_one_with_each_text_once() -> None:
    first, second = of_runtime(StatusCode.UNKNOWN, "a"), of_runtime(StatusCode.UNAVAILABLE, "b")
    assert combined([first]) is first
    both = combined([first, second, second])
    assert str(both) == "[a, rpc error: code = Unavailable desc = b]"
    assert isinstance(both, Transient)


@pytest.mark.parametrize(
    ("code", "lost"),
    [
        (StatusCode.UNAVAILABLE, True),
        (StatusCode.DEADLINE_EXCEEDED, True),
        (StatusCode.CANCELLED, True),
        (StatusCode.UNKNOWN, False),
        (StatusCode.NOT_FOUND, False),
    ],
)
def test_pull_may_go_on_if_the_connection_was_lost_at_the_last_try(code: StatusCode, lost: bool) -> None:
    assert may_go_on(of_runtime(code)) is lost
    assert may_go_on(combined([of_runtime(StatusCode.UNKNOWN), of_runtime(code)])) is lost
