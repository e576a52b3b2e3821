"""Calls of the C library that Python 3.11 has no binding for."""

import ctypes
import os
from functools import cache


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def call(function: str, *args: int | bytes | None) -> int:
    """Call a libc function of integer and pointer arguments. Raises OSError if it returns -1."""
    result = int(_function(function)(*map(_argument, args)))
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


@cache
def _function(name: str) -> "ctypes._NamedFuncPointer":
    return _libc()[name]


def syscall(number: int, *args: int | bytes | None) -> int:
    """Make a system call by its number. Raises OSError if it fails."""
    return call("syscall", number, *args)


def call_if_present(function: str, *args: int) -> int | None:
    """Call a function that not every C library has; its result, or None where the function is missing."""
    found = getattr(_libc(), function, None)
    return None if found is None else int(found(*map(_argument, args)))


def _argument(value: int | bytes | None) -> "ctypes.c_long | ctypes.c_char_p":
    # Every integer is passed as a full register, so flags above 2³¹ survive.
    return ctypes.c_long(value) if isinstance(value, int) else ctypes.c_char_p(value)
