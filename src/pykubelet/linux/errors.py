"""Turns errno into the project's error tree, in one place."""

import errno

from pykubelet.base.errors import Conflict, Invalid, NotFound, Permanent, PykubeletError, Transient

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


def wrap(error: OSError, what: str) -> PykubeletError:
    """The error to raise for a failed system call; what no table entry makes final may pass with time.

    `what` says what was tried and on what path. Use as `raise wrap(error, "…") from error`.
    """
    kind = _KINDS.get(error.errno or 0, Transient)
    return kind(f"{what}: {error.strerror or error}")
