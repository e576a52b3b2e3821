# ruff: noqa: N818 - named after their base classes
"""CRI errors: the only place where a gRPC status becomes one of `base.errors`.

Callers catch the class of the base tree (`NotFound`, `Transient`, …) and decide by it. `CriError` is there for who
wants the code or the runtime's own words.
"""

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


class CriError(PykubeletError):
    """A call to the container runtime failed.

    `call` is the CRI method, `target` the object it was about (may be empty), `details` the runtime's message.
    """

    def __init__(self, code: StatusCode, call: str, target: str, details: str) -> None:
        super().__init__(f"{' '.join(filter(None, (call, target)))}: {details or 'no message'} ({code.name})")
        self.code = code
        self.call = call
        self.target = target
        self.details = details


class CriNotFound(CriError, NotFound):
    """The runtime has no such sandbox, container or image."""


class CriConflict(CriError, Conflict):
    """The runtime has that name already."""


class CriInvalid(CriError, Invalid):
    """The runtime refused the arguments."""


class CriUnsupported(CriError, Unsupported):
    """The runtime does not have this call."""


class CriRefused(CriError, Permanent):
    """The runtime will not do this: wrong state, no permission."""


class CriUnavailable(CriError, Transient):
    """The runtime is not there, is starting, or is out of some resource."""


class CriTimeout(CriError, Transient):
    """The runtime did not answer in time; what was asked may have happened.

    ExecSync also says so of a command that did not end in time.
    """


class CriFailed(CriError, Transient):
    """The runtime tried and failed (network set-up, mount, registry, …) or answered nonsense.

    Runtimes use UNKNOWN for nearly everything, so most of these may succeed when tried again.
    """


_BY_CODE: dict[StatusCode, type[CriError]] = {
    StatusCode.NOT_FOUND: CriNotFound,
    StatusCode.ALREADY_EXISTS: CriConflict,
    StatusCode.INVALID_ARGUMENT: CriInvalid,
    StatusCode.OUT_OF_RANGE: CriInvalid,
    StatusCode.UNIMPLEMENTED: CriUnsupported,
    StatusCode.FAILED_PRECONDITION: CriRefused,
    StatusCode.PERMISSION_DENIED: CriRefused,
    StatusCode.UNAUTHENTICATED: CriRefused,
    StatusCode.UNAVAILABLE: CriUnavailable,
    StatusCode.RESOURCE_EXHAUSTED: CriUnavailable,
    StatusCode.DEADLINE_EXCEEDED: CriTimeout,
}


_NAME_TAKEN = " is reserved for "
"""How containerd (1.x and 2.x) words a taken sandbox or container name, with the code UNKNOWN."""


def cri_error(code: StatusCode, call: str, target: str, details: str) -> CriError:
    """The error for a gRPC status; codes without a class of their own give `CriFailed`."""
    if code is StatusCode.UNKNOWN and _NAME_TAKEN in details:
        return CriConflict(code, call, target, details)
    return _BY_CODE.get(code, CriFailed)(code, call, target, details)
