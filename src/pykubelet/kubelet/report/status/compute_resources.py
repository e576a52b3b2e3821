"""What a container's status says about its resources and mounts. Pure.

For a running container the amounts are those that the runtime has applied, where it tells them, so that an in-place
resize shows when it has happened and not when it was asked for (KEP-1287).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pykubelet.kubelet.types.podspec import AnyContainer
from pykubelet.kubelet.types.runtime import ContainerResources
from pykubelet.models.core_v1 import ContainerStatus, ResourceRequirements, VolumeMount, VolumeMountStatus
from pykubelet.models.quantity import from_bytes, from_milli, to_bytes, to_milli
from pykubelet.models.scalars import Quantity

MIN_CPU_SHARES: Final = 2
"""The kernel's lowest weight; smaller requests end up here, so it does not tell what was asked for."""
MIN_CPU_LIMIT_MILLI: Final = 10
"""The lowest limit that is applied."""
_NONE: Final = ResourceRequirements()


@dataclass(frozen=True, slots=True)
class _Applied:
    cpu_request: int | None
    cpu_limit: int | None
    memory_limit: int | None


def status_resources(
    container: AnyContainer, applied: ContainerResources | None, previous: ContainerStatus | None
) -> ResourceRequirements:
    """The resources of a running container: as applied, else as reported before, else as in the spec.

    ``previous`` is the last status of the same running container, None if there is none.
    """
    spec = container.resources or _NONE
    before = (previous.resources if previous else None) or _NONE
    found = _amounts(applied)
    limits = dict(spec.limits)
    if limits:
        _cpu(limits, found.cpu_limit, MIN_CPU_LIMIT_MILLI, before.limits)
        _memory(limits, found.memory_limit, before.limits)
    requests = dict(spec.requests)
    if requests:
        _cpu(requests, found.cpu_request, MIN_CPU_SHARES, before.requests)
        _memory(requests, None, before.requests)
    return ResourceRequirements(limits=limits, requests=requests, claims=spec.claims)


def mount_statuses(container: AnyContainer, *, recursive_read_only: bool) -> tuple[VolumeMountStatus, ...]:
    """The container's mounts, and for read-only ones whether that holds for mounts below them too (KEP-3857)."""
    return tuple(_mount_status(mount, recursive_read_only) for mount in container.volume_mounts)


def _mount_status(mount: VolumeMount, supported: bool) -> VolumeMountStatus:
    mode = ""
    if mount.read_only:
        wanted = mount.recursive_read_only in ("Enabled", "IfPossible")
        alone = mount.mount_propagation in ("", "None")
        mode = "Enabled" if wanted and alone and supported else "Disabled"
    return VolumeMountStatus(
        name=mount.name, mount_path=mount.mount_path, read_only=mount.read_only, recursive_read_only=mode
    )


def _amounts(applied: ContainerResources | None) -> _Applied:
    if applied is None:
        return _Applied(None, None, None)
    limit = None
    if applied.cpu_quota_us and applied.cpu_period_us and applied.cpu_quota_us > 0:
        limit = applied.cpu_quota_us * 1000 // applied.cpu_period_us or None
    request = math.ceil(applied.cpu_shares * 1000 / 1024) if applied.cpu_shares else None
    memory = applied.memory_limit_bytes if applied.memory_limit_bytes and applied.memory_limit_bytes > 0 else None
    return _Applied(request, limit, memory)


def _cpu(
    amounts: dict[str, Quantity], applied_milli: int | None, floor_milli: int, before: Mapping[str, Quantity]
) -> None:
    if applied_milli is None:
        _keep(amounts, "cpu", before)
        return
    asked = to_milli(amounts["cpu"]) if "cpu" in amounts else 0
    # At or below the floor several amounts are applied alike, so the one asked for is shown.
    if asked != applied_milli and (applied_milli > floor_milli or asked > floor_milli):
        amounts["cpu"] = from_milli(applied_milli)


def _memory(amounts: dict[str, Quantity], applied_bytes: int | None, before: Mapping[str, Quantity]) -> None:
    if applied_bytes is None:
        _keep(amounts, "memory", before)
    elif "memory" not in amounts or to_bytes(amounts["memory"]) != applied_bytes:
        amounts["memory"] = from_bytes(applied_bytes)


def _keep(amounts: dict[str, Quantity], name: str, before: Mapping[str, Quantity]) -> None:
    if name in before:
        amounts[name] = before[name]
