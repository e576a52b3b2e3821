"""errno to the error tree."""

import errno

import pytest

from pykubelet.base.errors import Conflict, Invalid, NotFound, Permanent, Transient
from pykubelet.linux import libc
from pykubelet.linux.errors import wrap


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOENT, NotFound),
        (errno.ESRCH, NotFound),
        (errno.EEXIST, Conflict),
        (errno.EINVAL, Invalid),
        (errno.EROFS, Permanent),
        (errno.EPERM, Permanent),
        (errno.EBUSY, Transient),
        (errno.ENOSPC, Transient),
        (errno.EIO, Transient),
    ],
)
def test_error_number_decides_the_kind_of_error(number: int, kind: type[Exception]) -> None:
    error = wrap(OSError(number, "said so"), "cannot do it")
    assert type(error) is kind
    assert str(error) == "cannot do it: said so"


def test_libc_raises_with_errno() -> None:
    with pytest.raises(FileNotFoundError):
        libc.call("umount2", b"/no/such/path", 0)
    with pytest.raises(OSError, match="Function not implemented"):
        libc.syscall(100_000)
