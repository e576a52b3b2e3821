# ruff: noqa: N818 - the names say what to do about it, and are read in every `except`
"""The one error tree, cut by what the caller can do about an error rather than by where it came from.

Library errors are wrapped into these at the edge (`raise NotFound(...) from error`). A message names the
pod, container or path, says what is wrong and what to do.
"""


class PykubeletError(Exception):
    """Root of all errors this project raises on purpose."""


class NotFound(PykubeletError):
    """The thing asked for does not exist; for a deletion that means it is done."""


class Invalid(PykubeletError):
    """The input is wrong and will stay wrong until somebody changes it."""


class Conflict(PykubeletError):
    """The thing exists already, or changed under our feet; read again and decide anew."""


class Permanent(PykubeletError):
    """Failed, and trying the same again will not help."""


class Unsupported(Permanent):
    """The other side does not know this call or feature; use the older way."""


class Transient(PykubeletError):
    """Failed, but the same call may succeed later.

    `retry_after` is the earliest sensible delay in seconds when the other side named one.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
