"""Reads regular files that others have written, and knows which names in a directory are meant to be read.

Quick to import, since commands read their arguments with it.
"""

import os
import stat

from pykubelet.base.errors import Invalid, NotFound, Transient


def read_regular(path: str, most: int) -> bytes:
    """Return the first ``most`` bytes of a file; symbolic links are followed.

    Raises NotFound, Invalid (not a regular file) or Transient (the disk or permissions).
    A pipe or device is never read: opening it with O_NONBLOCK does not wait, and its kind is looked at first.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except FileNotFoundError as error:
        raise NotFound("the file does not exist") from error
    except ValueError as error:
        raise Invalid("cannot be read: the path contains a NUL character") from error
    except OSError as error:
        raise Transient(f"cannot be read: {error.strerror}") from error
    try:
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode):
            what = "a directory" if stat.S_ISDIR(mode) else "a pipe, socket or device"
            raise Invalid(f"is {what}, not a regular file")
        with os.fdopen(fd, "rb", closefd=False) as file:
            return file.read(most)
    except OSError as error:
        raise Transient(f"cannot be read: {error.strerror}") from error
    finally:
        os.close(fd)


def is_plain_name(name: str) -> bool:
    """Whether a file name is not hidden and not that of an editor's copy (``web.yaml~``, ``#web.yaml#``)."""
    return not (name.startswith((".", "#")) or name.endswith("~"))
