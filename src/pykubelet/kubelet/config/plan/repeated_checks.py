"""The checks of a start that a reload of the configuration repeats. Pure.

What waits for a restart must not prevent that restart. Of the machine and of files only changed fields are checked: at
that moment, other programs may be replacing the files.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from pykubelet.kubelet.config.v1beta1 import KubeletConfiguration

_FILES: Final = ("tls_cert_file", "tls_private_key_file", "authentication")
_MACHINE: Final = (
    *("cgroup_root", "cgroups_per_qos", "enforce_node_allocatable", "eviction_hard", "fail_cgroup_v1"),
    *("fail_swap_on", "kube_reserved", "kube_reserved_cgroup", "memory_swap", "merge_default_eviction_settings"),
    *("single_process_oom_kill", "system_reserved", "system_reserved_cgroup"),
)


class RepeatedChecks(Struct, frozen=True, kw_only=True):
    """Checks that are repeated."""

    machine: bool
    """Whether the machine has what the configuration requires of it."""
    files: bool
    """Whether the kubelet API server can use its certificate, key and client CA."""


def repeated_checks(
    started: KubeletConfiguration, wanted: KubeletConfiguration, *, served: bool, serves: bool
) -> RepeatedChecks:
    """Compare what a reload has read with the configuration of the start.

    ``served`` and ``serves``: whether the kubelet API server is enabled by the one and by the other.
    """
    return RepeatedChecks(
        machine=_differ(started, wanted, _MACHINE),
        files=serves and (not served or _differ(started, wanted, _FILES)),
    )


def _differ(one: KubeletConfiguration, other: KubeletConfiguration, fields: Sequence[str]) -> bool:
    return any(getattr(one, name) != getattr(other, name) for name in fields)
