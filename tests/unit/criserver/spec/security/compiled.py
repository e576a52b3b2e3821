"""Filters that libseccomp makes of a profile for any architecture, and what they say of a call."""

import ctypes
import struct
import tempfile
from typing import Any, cast

from pykubelet.criserver.spec.spec_types import Json

ALLOW, ERRNO = 0x7FFF0000, 0x00050000
_ACTIONS = {"SCMP_ACT_ALLOW": ALLOW, "SCMP_ACT_ERRNO": ERRNO}
_COMPARISONS = {"SCMP_CMP_LT": 2, "SCMP_CMP_EQ": 4, "SCMP_CMP_GT": 6, "SCMP_CMP_MASKED_EQ": 7}
_BIG = frozenset(("s390", "s390x"))
_X32_CALLS = 0x40000000


class _Comparison(ctypes.Structure):
    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


class Library:
    """The libseccomp of this machine, which OCI runtimes use."""

    def __init__(self) -> None:
        """Raises OSError if it is missing."""
        self._c = ctypes.CDLL("libseccomp.so.2")
        self._c.seccomp_init.restype = ctypes.c_void_p
        self._c.seccomp_arch_resolve_name.restype = ctypes.c_uint32

    def architecture(self, name: str) -> int:
        """The kernel's number of an architecture (``SCMP_ARCH_…``); 0: this version does not know it."""
        found: int = self._c.seccomp_arch_resolve_name(name.removeprefix("SCMP_ARCH_").lower().encode())
        return found

    def number(self, architecture: str, name: str) -> int:
        """The number of a system call; negative if the architecture does not have it."""
        token = ctypes.c_uint32(self.architecture(architecture))
        found: int = self._c.seccomp_syscall_resolve_name_arch(token, name.encode())
        return found

    def compile(self, profile: Json) -> "Filter":
        """The filter of a profile, made as runc makes it; calls that the library does not know are skipped."""
        context = ctypes.c_void_p(self._c.seccomp_init(ctypes.c_uint32(ERRNO | 1)))
        try:
            names = cast(list[str], profile["architectures"])
            self._done(self._c.seccomp_arch_remove(context, self._c.seccomp_arch_native()))
            for name in names:
                self._done(self._c.seccomp_arch_add(context, ctypes.c_uint32(self.architecture(name))))
            for rule in cast(list[dict[str, Any]], profile["syscalls"]):
                self._add(context, rule)
            with tempfile.TemporaryFile() as file:
                self._done(self._c.seccomp_export_bpf(context, file.fileno()))
                file.seek(0)
                return Filter(file.read(), big=names[0].removeprefix("SCMP_ARCH_").lower() in _BIG)
        finally:
            self._c.seccomp_release(context)

    def _add(self, context: ctypes.c_void_p, rule: dict[str, Any]) -> None:
        action = ctypes.c_uint32(_ACTIONS[rule["action"]] | rule.get("errnoRet", 0))
        checks = [
            _Comparison(each["index"], _COMPARISONS[each["op"]], each["value"], each.get("valueTwo", 0))
            for each in rule.get("args", [])
        ]
        array = (_Comparison * len(checks))(*checks)
        for name in rule["names"]:
            number = self._c.seccomp_syscall_resolve_name(name.encode())
            if number != -1:  # __NR_SCMP_ERROR
                self._done(self._c.seccomp_rule_add_array(context, action, number, len(checks), array))

    def _done(self, result: int) -> None:
        assert result >= 0, f"libseccomp: error {result}"


class Filter:
    """A program of the kernel's packet filter, run here."""

    def __init__(self, program: bytes, *, big: bool) -> None:
        self._order = ">" if big else "<"
        self._code = list(struct.iter_unpack(f"{self._order}HBBI", program))

    def _result(self, value: int) -> int:
        """The result of an instruction: libseccomp 2.5 forgets the order of some if it is not that of this machine."""
        if value == 0 or value & 0xFFFF0000 in (ALLOW, ERRNO):
            return value
        return int.from_bytes(value.to_bytes(4, "little"))

    def __call__(self, architecture: int, number: int, *arguments: int) -> int:
        """Return the action of the kernel for a system call."""
        words = (*arguments, *[0] * (6 - len(arguments)))
        data = struct.pack(f"{self._order}iIQ6Q", number, architecture, 0, *words)
        accumulator = at = 0
        while True:
            code, then, otherwise, value = self._code[at]
            at += 1
            match code:
                case 0x20:  # load a word
                    (accumulator,) = struct.unpack_from(f"{self._order}I", data, value)
                case 0x54:
                    accumulator &= value
                case 0x05:
                    at += value
                case 0x15:
                    at += then if accumulator == value else otherwise
                case 0x25:
                    at += then if accumulator > value else otherwise
                case 0x35:
                    at += then if accumulator >= value else otherwise
                case 0x06:
                    return self._result(int(value))
                case _:
                    raise AssertionError(f"instruction {code:#x}")
