"""The mapping of errno to the error classes of the project."""

import errno

from pykubelet.base.errors import PASSING, Conflict, Invalid, NotFound, Permanent, PykubeletError, Transient

_KINDS: dict[int, type[PykubeletError]] = {
    errno.ENOENT: NotFound,
    errno.ESRCH: NotFound,
    errno.ENODEV: NotFound,
    errno.EEXIST: Conflict,
    errno.EINVAL: Invalid,
    errno.ERANGE: Invalid,
    errno.ENAMETOOLONG: Invalid,
    errno.ELOOP: Invalid,
    errno.ENOTDIR: Invalid,
    errno.EACCES: Permanent,
    errno.EPERM: Permanent,
    errno.EROFS: Permanent,
    errno.ENOSYS: Permanent,
    errno.EOPNOTSUPP: Permanent,
}


def raise_passing(error: Exception, what: str) -> None:
    """Raise Transient if ``error`` is of the machine (EMFILE, EIO), and so says nothing about the file ``what``."""
    if isinstance(error, OSError) and error.errno in PASSING:
        raise Transient(f"{what} cannot be read: {error.strerror}") from error


def wrap(error: OSError, what: str) -> PykubeletError:
    """The error to raise for a failed system call: by `_KINDS`, else Transient.

    `what` names the operation and the path. Use it as `raise wrap(error, "…") from error`.
    """
    kind = _KINDS.get(error.errno or 0, Transient)
    return kind(f"{what}: {error.strerror or error}")
