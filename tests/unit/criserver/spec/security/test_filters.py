"""The filters that libseccomp makes of the RuntimeDefault profile, on each architecture and for its 32-bit programs."""

from collections.abc import Iterator
from typing import cast

import pytest
from msgspec.structs import replace

from pykubelet.criserver.spec.security.seccomp import profile
from pykubelet.criserver.spec.security.system_calls import ARCHITECTURES
from tests.unit.criserver.spec.security.compiled import ALLOW, ERRNO, Filter, Library
from tests.unit.criserver.spec.security.profiles import HOST, allowed

EPERM, ENOSYS = ERRNO | 1, ERRNO | 38
NEW_USER, SIGCHLD = 0x10000000, 17
SINCE_2_6 = frozenset(("loongarch64",))
"""Machines that libseccomp 2.5 does not know."""


@pytest.fixture(scope="module")
def library() -> Library:
    try:
        return Library()
    except OSError as error:
        pytest.skip(f"apt-get install libseccomp2: {error}")


class Calls:
    """The filter of a machine, asked by the names of calls."""

    def __init__(self, library: Library, made: Filter, architecture: str) -> None:
        self._library = library
        self._filter = made
        self.architecture = architecture
        self.token = library.architecture(architecture)
        if architecture == "SCMP_ARCH_X32":
            self.token = library.architecture("SCMP_ARCH_X86_64")

    def number(self, name: str) -> int:
        found = self._library.number(self.architecture, name)
        return found | 0x40000000 if found >= 0 and self.architecture == "SCMP_ARCH_X32" else found

    def __call__(self, name: str, *arguments: int) -> int:
        return self._filter(self.token, self.number(name), *arguments)


def filters(library: Library, machine: str) -> Iterator[Calls]:
    """For each architecture of programs on a machine."""
    found = profile(frozenset(), replace(HOST, architecture=machine))
    made = library.compile(found)
    for architecture in cast(list[str], found["architectures"]):
        yield Calls(library, made, architecture)


@pytest.fixture(params=sorted(ARCHITECTURES))
def machine(request: pytest.FixtureRequest, library: Library) -> str:
    name = str(request.param)
    if name in SINCE_2_6 and not library.architecture(ARCHITECTURES[name].filters[0]):
        pytest.skip(f"this libseccomp does not know {name}")
    return name


def test_calls_of_ordinary_programs_are_allowed_with_any_arguments(library: Library, machine: str) -> None:
    names = allowed(profile(frozenset(), replace(HOST, architecture=machine)))
    for calls in filters(library, machine):
        there = {name for name in names if calls.number(name) >= 0}
        assert len(there) > 250, (calls.architecture, len(there))
        refused = {name for name in there if calls(name, *[2**32 - 1] * 6) != ALLOW}
        assert refused == set(), calls.architecture


def test_other_calls_are_not_permitted(library: Library, machine: str) -> None:
    for calls in filters(library, machine):
        for name in ("mount", "bpf", "init_module", "kexec_load", "keyctl", "unshare", "setns", "open_by_handle_at"):
            assert calls(name) == EPERM, (calls.architecture, name)
        assert calls("clone3") == ENOSYS, calls.architecture


def test_processes_are_made_without_namespaces_only(library: Library, machine: str) -> None:
    for calls in filters(library, machine):
        swapped = calls.architecture in ("SCMP_ARCH_S390", "SCMP_ARCH_S390X")
        for flags, expected in ((SIGCHLD, ALLOW), (SIGCHLD | NEW_USER, EPERM)):
            stack = 0x7FFE0000  # looks like flags, where the order of the arguments is mistaken
            arguments = (stack, flags) if swapped else (flags, stack)
            assert calls("clone", *arguments) == expected, (calls.architecture, flags)


def test_sockets_and_personalities_are_those_of_the_profile(library: Library, machine: str) -> None:
    for calls in filters(library, machine):
        if calls.number("socket") >= 0:
            found = [family for family in range(64) if calls("socket", family, 1, 0) != ALLOW]
            assert found == [38, 40], calls.architecture
        assert calls("personality", 0x20008) == ALLOW, calls.architecture
        assert calls("personality", 0x0040000) == EPERM, calls.architecture


def test_programs_of_other_architectures_are_killed(library: Library, machine: str) -> None:
    made = library.compile(profile(frozenset(), replace(HOST, architecture=machine)))
    own = ARCHITECTURES[machine].filters
    other = next(each for each in ("SCMP_ARCH_MIPS", "SCMP_ARCH_RISCV64") if each not in own)
    assert made(library.architecture(other), 1) not in (ALLOW, EPERM, ENOSYS)
