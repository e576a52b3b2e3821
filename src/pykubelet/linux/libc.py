"""Calls of the C library that Python 3.11 has no binding for."""

import ctypes
import os
from functools import cache


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def call(function: str, *args: int | bytes | None) -> int:
    """Call a libc function of integer and pointer arguments. Raises OSError if it returns -1."""
    result = int(_function(function, *map(type, args))(*args))
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


@cache
def _function(name: str, *types: type) -> "ctypes._NamedFuncPointer":
    """The function for arguments of these types."""
    found = _libc()[name]
    # Every integer is passed as a full register, so flags above 2³¹ survive.
    found.argtypes = [ctypes.c_long if issubclass(each, int) else ctypes.c_char_p for each in types]
    return found


def syscall(number: int, *args: int | bytes | None) -> int:
    """Make a system call by its number. Raises OSError if it fails."""
    return call("syscall", number, *args)


def call_if_present(function: str, *args: int) -> int | None:
    """Call a function that not every C library has; its result, or None where the function is missing."""
    try:
        found = _function(function, *map(type, args))
    except AttributeError:
        return None
    return int(found(*args))
