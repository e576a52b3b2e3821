"""The RuntimeDefault profile: what follows from capabilities, architecture and kernel."""

from collections.abc import Callable
from typing import Any, cast

import pytest
from msgspec.structs import replace

from pykubelet.criserver.spec.security.seccomp import profile
from pykubelet.criserver.spec.security.system_calls import ALLOWED, ARCHITECTURES, WITH_CAPABILITY
from pykubelet.criserver.spec.spec_types import Json
from tests.unit.criserver.spec.security.profiles import HOST, allowed, rules_of


def passes(found: Json, name: str, *arguments: int) -> bool:
    """Evaluate the rules for a call as libseccomp does: any rule of which all comparisons hold."""
    compare: dict[str, Callable[[int, int, int], bool]] = {
        "SCMP_CMP_EQ": lambda value, given, _: given == value,
        "SCMP_CMP_LT": lambda value, given, _: given < value,
        "SCMP_CMP_GT": lambda value, given, _: given > value,
        "SCMP_CMP_MASKED_EQ": lambda value, given, two: given & value == two,
    }
    for rule in rules_of(found):
        if name not in cast(list[str], rule["names"]) or rule["action"] != "SCMP_ACT_ALLOW":
            continue
        checks = cast(list[dict[str, Any]], rule.get("args", []))
        assert len({each["index"] for each in checks}) == len(checks), "runc takes several for one argument as 'or'"
        if all(
            compare[each["op"]](each["value"], arguments[each["index"]], each.get("valueTwo", 0)) for each in checks
        ):
            return True
    return False


def test_profile_follows_the_capabilities() -> None:
    plain, admin = profile(frozenset(), HOST), profile(frozenset({"CAP_SYS_ADMIN"}), HOST)
    for found, expected in ((plain, False), (admin, True)):
        assert ("mount" in allowed(found)) is expected
        assert "read" in allowed(found)
        clone3 = [rule for rule in rules_of(found) if rule["names"] == ["clone3"]]
        assert bool(clone3) is not expected
    assert plain["defaultAction"] == "SCMP_ACT_ERRNO"
    assert "clone3" in allowed(admin)


@pytest.mark.parametrize("family", range(64))
def test_sockets_of_all_families_but_those_of_the_kernels_ciphers_and_the_hypervisor(family: int) -> None:
    assert passes(profile(frozenset(), HOST), "socket", family, 1, 0) is (family not in (38, 40))


NEW = (
    "getxattrat setxattrat listxattrat removexattrat listmount statmount lsm_get_self_attr lsm_set_self_attr "
    "lsm_list_modules mseal uretprobe"
)


def test_calls_of_new_kernels_are_allowed() -> None:
    assert set(NEW.split()) <= allowed(profile(frozenset(), HOST))


@pytest.mark.parametrize(
    ("machine", "filters", "calls", "not_there"),
    [
        ("x86_64", 3, {"arch_prctl", "modify_ldt"}, {"set_tls"}),
        ("aarch64", 2, {"arm_fadvise64_64", "set_tls", "cacheflush", "sync_file_range2"}, {"arch_prctl"}),
        ("riscv64", 1, {"riscv_flush_icache"}, {"arch_prctl", "set_tls"}),
        ("ppc64le", 1, {"swapcontext"}, {"arch_prctl"}),
        ("s390x", 2, {"s390_runtime_instr"}, {"modify_ldt"}),
        ("loongarch64", 1, set(), {"modify_ldt"}),
    ],
)
def test_profile_follows_the_architecture(machine: str, filters: int, calls: set[str], not_there: set[str]) -> None:
    found = profile(frozenset(), replace(HOST, architecture=machine))
    assert len(cast(list[str], found["architectures"])) == filters
    assert calls <= allowed(found) and not not_there & allowed(found)


def test_unknown_architecture_is_left_to_the_runtime() -> None:
    found = profile(frozenset(), replace(HOST, architecture="vax"))
    assert "architectures" not in found and "read" in allowed(found)


@pytest.mark.parametrize(("machine", "index"), [("x86_64", 0), ("s390x", 1)])
def test_clone_makes_no_namespaces_without_the_capability(machine: str, index: int) -> None:
    found = profile(frozenset(), replace(HOST, architecture=machine))
    for flags, expected in ((0x11, True), (0x10000011, False), (0x40000000, False)):
        assert passes(found, "clone", *((0, flags) if index else (flags, 0))) is expected


def test_tracing_is_for_kernels_that_filter_after_the_tracer() -> None:
    old, new = (profile(frozenset(), replace(HOST, kernel=kernel)) for kernel in ((4, 7), (4, 8)))
    assert "ptrace" not in allowed(old) and "ptrace" in allowed(new)
    assert "ptrace" in allowed(profile(frozenset({"CAP_SYS_PTRACE"}), replace(HOST, kernel=(4, 4))))


def test_no_call_is_listed_twice() -> None:
    """Calls that every process may make need no capability; a name in both tables would hide a mistake."""
    both = {name for calls in WITH_CAPABILITY.values() for name in calls.split()} & ALLOWED
    assert both == set()
    assert not any(each.allowed & ALLOWED for each in ARCHITECTURES.values())
