"""A static program for amd64 that makes system calls and tells which ones were refused; tests run it in containers.

It is written in machine code, since a container has no interpreter and a test machine no compiler. Per number:

    fork; in the child: alarm(60), the call with all six arguments -1, then exit with
    1 (it returned -EPERM), 2 (-ENOSYS) or 0; in the parent: wait4, then put a letter into the list of numbers

With such arguments a call that is allowed fails in the kernel, or does nothing that outlives the child.
"""

import ctypes
import struct
from collections.abc import Sequence

PERMITTED, EPERM, ENOSYS = ".", "P", "N"
"""The letters that the program prints: any other outcome, EPERM, ENOSYS."""
MACHINE = "x86_64"
_CODE = bytes.fromhex(
    "488d1dd3000000"  # lea rbx, numbers
    "440fb723 4181fcffff0000 0f849a000000"  # next: r12d = [rbx]; the list ends with 0xffff
    "b838000000 bf11000000 31f6 31d2 4531d2 4531c0 0f05 85c0 743a"  # clone(SIGCHLD); in the child go to child
    "89c7 6a00 4889e6 31d2 4531d2 b83d000000 0f05 58"  # wait4(pid, &status, 0, 0)
    "b92e200000 3d00010000 7505 b950200000"  # ". ", or "P " for the exit code 1
    "3d00020000 7505 b94e200000"  # "N " for 2
    "66890b 4883c302 eb9b"  # [rbx] = the letter and the blank; the next number
    "b825000000 bf3c000000 0f05"  # child: alarm(60)
    "4489e0 48c7c7ffffffff 4889fe 4889fa 4989fa 4989f8 4989f9 0f05"  # the call
    "31ff 4883f8ff 7505 bf01000000 4883f8da 7505 bf02000000 b8e7000000 0f05"  # exit_group(0, 1 or 2)
    "66c7030a00 488d351c000000 488d5301 4829f2 bf01000000 b801000000 0f05"  # end: write(1, numbers, …)
    "31ff b8e7000000 0f05"  # exit_group(0)
)
_BASE = 0x400000
_HEADERS = 64 + 56


def program(numbers: Sequence[int]) -> bytes:
    """The ELF file for these numbers; it prints a line with a letter for each, separated by blanks."""
    return _file(_CODE + struct.pack(f"<{len(numbers) + 1}H", *numbers, 0xFFFF))


def socket_program(family: int) -> bytes:
    """The ELF file of a program that makes one socket of a family, and exits with the error's number, or 0."""
    return _file(
        b"\xb8\x29\0\0\0\xbf"  # socket(family, SOCK_SEQPACKET, 0)
        + struct.pack("<I", family)
        + bytes.fromhex(
            "be05000000 31d2 0f0531ff 85c0 7904 89c7 f7df b8e7000000 0f05"  # exit_group(-result, or 0)
        )
    )


def _file(body: bytes) -> bytes:
    size = _HEADERS + len(body)
    identity = b"\x7fELF\2\1\1" + bytes(9)
    header = struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, _BASE + _HEADERS, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 7, 0, _BASE, _BASE, size, size, 0x1000)
    return identity + header + segment + body


class Names:
    """The numbers of system calls as libseccomp knows them, which runc uses."""

    def __init__(self) -> None:
        """Raises OSError if the library is missing."""
        self._library = ctypes.CDLL("libseccomp.so.2")

    def number(self, name: str) -> int:
        """The number on this machine; negative if the library, or this architecture, does not have the call."""
        found: int = self._library.seccomp_syscall_resolve_name(name.encode())
        return found
