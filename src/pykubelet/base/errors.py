# ruff: noqa: N818 - the names say what to do about it, and are read in every `except`
"""The error classes of the project, divided by what the caller can do about an error, not by its origin.

Library errors are wrapped into these where they occur (`raise NotFound(...) from error`). A message names the
pod, container or path, says what is wrong and what to do.
"""

import errno
from typing import Final

PASSING: Final = frozenset(
    (
        *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR, errno.ESTALE, errno.ETIMEDOUT),
        # Of a disk or its file system: the last two are those of ext4 and xfs for an inode with a bad checksum.
        *(errno.EIO, errno.EBADMSG, errno.EUCLEAN),
    )
)
"""Error numbers that say nothing about the content of a file: something is missing or fails for the moment."""
LACKING: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS))
"""Error numbers that say nothing about the other side of a connection: this process or machine lacks something."""


class PykubeletError(Exception):
    """Root of all errors this project raises on purpose."""


class NotFound(PykubeletError):
    """The requested object does not exist. A deletion treats this as success."""


class Invalid(PykubeletError):
    """The input is invalid; a retry fails until its author changes it."""


class Conflict(PykubeletError):
    """The object exists already or has changed meanwhile; read it again, then decide again."""


class Permanent(PykubeletError):
    """The operation failed, and a retry will not help."""


class Unsupported(Permanent):
    """The other side does not know this call or feature; use the older one."""


class Transient(PykubeletError):
    """The operation failed, but the same call may succeed later.

    `retry_after` is the shortest useful delay in seconds, if the other side gave one.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
