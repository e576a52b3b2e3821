"""A host with seccomp, and what a profile allows on it."""

from typing import cast

from pykubelet.criserver.spec import Host
from pykubelet.criserver.spec.spec_types import Json

HOST = Host(capabilities=frozenset(), cgroup_version=2, least_oom_score=0, seccomp=True)


def rules_of(found: Json) -> list[Json]:
    return cast(list[Json], found["syscalls"])


def allowed(found: Json) -> set[str]:
    """The names that are allowed with any arguments."""
    return {
        name
        for rule in rules_of(found)
        if rule["action"] == "SCMP_ACT_ALLOW" and "args" not in rule
        for name in cast(list[str], rule["names"])
    }
