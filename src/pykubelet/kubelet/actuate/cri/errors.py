# ruff: noqa: N818 - named after their base classes
"""CRI errors: maps gRPC codes to the error classes of `base.errors`.

Callers catch the base classes (`NotFound`, `Transient`, …). `CriError` has the gRPC code and the runtime's message.
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
    """The sandbox, container or image does not exist in the runtime."""


class CriConflict(CriError, Conflict):
    """The name is taken in the runtime."""


class CriInvalid(CriError, Invalid):
    """The runtime rejected the arguments."""


class CriUnsupported(CriError, Unsupported):
    """The runtime does not have this call."""


class CriRefused(CriError, Permanent):
    """The runtime refused the operation: wrong state, or no permission."""


class CriUnavailable(CriError, Transient):
    """The runtime is unavailable, is starting, or lacks a resource."""


class CriTimeout(CriError, Transient):
    """The call timed out; its operation may have happened.

    ExecSync also raises it for a command that timed out.
    """


class CriFailed(CriError, Transient):
    """The operation failed in the runtime (network set-up, mount, registry, …), or the reply is invalid.

    Runtimes use the code UNKNOWN for nearly everything, so a retry may succeed.
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
"""Part of containerd's message (1.x and 2.x) for a taken sandbox or container name; its code is UNKNOWN."""


def cri_error(code: StatusCode, call: str, target: str, details: str) -> CriError:
    """Return the error for a gRPC status; `CriFailed` for codes without a class of their own."""
    if code is StatusCode.UNKNOWN and _NAME_TAKEN in details:
        return CriConflict(code, call, target, details)
    return _BY_CODE.get(code, CriFailed)(code, call, target, details)
