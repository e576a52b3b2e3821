"""Calls of the C library with each type of argument."""

import errno
import os
from pathlib import Path

import pytest

from pykubelet.linux import libc


def test_numbers_are_passed_as_full_registers(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        assert libc.call("ftruncate", file.fileno(), 5 << 32) == 0
        assert os.fstat(file.fileno()).st_size == 5 << 32


def test_same_function_is_called_with_arguments_of_different_types() -> None:
    assert libc.call("strtol", b"17", None, 10) == 17
    assert libc.call("access", b"/", os.R_OK) == 0
    with pytest.raises(OSError, match="Bad address") as caught:
        libc.call("access", 1, os.R_OK)
    assert caught.value.errno == errno.EFAULT


def test_function_that_this_library_lacks_is_none() -> None:
    assert libc.call_if_present("no_such_function", 1) is None
    assert libc.call_if_present("abs", -3) == 3
