"""Errors of the runtime during a pull: their texts for events, and whether the pull may go on without the agent."""

from collections.abc import Sequence
from typing import Final

from grpc import StatusCode

from pykubelet.base.errors import PykubeletError, Transient
from pykubelet.kubelet.actuate.cri.errors import CriError

_LOST: Final = (StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED, StatusCode.CANCELLED)


def error_message(error: PykubeletError) -> str:
    """Error text for events; for an error of the runtime its own message.

    Codes other than UNKNOWN, which runtimes use for nearly everything, are added as a prefix as in Go.
    """
    if not isinstance(error, CriError):
        return str(error)
    if error.code is StatusCode.UNKNOWN:
        return error.details
    code = error.code.name.title().replace("_", "")
    return f"rpc error: code = {code} desc = {error.details}"


def combined(errors: Sequence[PykubeletError]) -> PykubeletError:
    """Return one error for those of all tries of a pull; equal texts appear once."""
    if len(errors) == 1:
        return errors[0]
    texts = dict.fromkeys(error_message(each) for each in errors)
    error = Transient(f"[{', '.join(texts)}]")
    error.__cause__ = errors[-1]
    return error


def may_go_on(error: PykubeletError) -> bool:
    """Whether a pull may still succeed after this error, since the connection to the runtime was lost."""
    causes = (error, error.__cause__)
    return any(isinstance(each, CriError) and each.code in _LOST for each in causes)
