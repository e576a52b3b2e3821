"""The RuntimeDefault seccomp profile: system calls of ordinary programs, and those of granted capabilities. Pure.

An allow list (``system_calls``): all other calls fail with EPERM, and clone3 with ENOSYS, so that C libraries fall back
to clone, whose flags can be checked.
"""

from pykubelet.criserver.spec.security.capabilities import capability_set
from pykubelet.criserver.spec.security.system_calls import (
    ALLOWED,
    TRACING,
    TRACING_SINCE,
    WITH_CAPABILITY,
    architecture_of,
)
from pykubelet.criserver.spec.spec_types import ContainerInput, Host, Json

_EPERM, _ENOSYS = 1, 38
_NAMESPACE_FLAGS = 0x7E020000
"""CLONE_NEW* of clone(2): new namespaces need CAP_SYS_ADMIN."""
_AF_ALG, _AF_VSOCK = 38, 40
"""Families of sockets that reach the kernel's ciphers (much attack surface) and the hypervisor."""

_PERSONALITIES = (0x0, 0x0008, 0x20000, 0x20008, 0xFFFFFFFF)
"""personality(2): Linux, UNAME26, LINUX32, both, and the question which one is set."""


def runtime_default(given: ContainerInput) -> Json:
    """Build ``linux.seccomp`` for a container with these capabilities."""
    security = given.config.linux.security_context
    granted = capability_set(security.capabilities, security.privileged, given.host.capabilities)["bounding"]
    assert isinstance(granted, list)
    return profile(frozenset(granted), given.host)


def profile(capabilities: frozenset[str], host: Host) -> Json:
    """Build the profile for a set of capabilities on a machine."""
    architecture = architecture_of(host.architecture)
    names = ALLOWED | architecture.allowed
    if host.kernel >= TRACING_SINCE:
        names |= TRACING
    for capability, calls in WITH_CAPABILITY.items():
        if capability in capabilities:
            names |= set(calls.split())
    rules: list[Json] = [_allow(sorted(names))]
    rules += [_allow(["personality"], _argument(0, value)) for value in _PERSONALITIES]
    # One rule for each range: two "not equal" on the same argument of one rule mean "or" to libseccomp's callers.
    rules += [
        _allow(["socket"], _argument(0, _AF_ALG, "SCMP_CMP_LT")),
        _allow(["socket"], _argument(0, _AF_ALG + 1)),
        _allow(["socket"], _argument(0, _AF_VSOCK, "SCMP_CMP_GT")),
    ]
    if "CAP_SYS_ADMIN" not in capabilities:
        index = architecture.clone_flags
        masked = {"index": index, "value": _NAMESPACE_FLAGS, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}
        rules.append(_allow(["clone"], masked))
        rules.append({"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": _ENOSYS})
    found: Json = {"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": _EPERM, "syscalls": rules}
    # On an unknown architecture, the OCI runtime filters the native one.
    return {**found, "architectures": list(architecture.filters)} if architecture.filters else found


def _allow(names: list[str], argument: Json | None = None) -> Json:
    rule: Json = {"names": names, "action": "SCMP_ACT_ALLOW"}
    return rule if argument is None else {**rule, "args": [argument]}


def _argument(index: int, value: int, comparison: str = "SCMP_CMP_EQ") -> Json:
    return {"index": index, "value": value, "op": comparison}
