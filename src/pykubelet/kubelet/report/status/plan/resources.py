"""The resources and mounts in a container's status. Pure.

For a running container the amounts are those that the runtime reports as applied, so that an in-place resize shows when
it has happened, not when it was requested (KEP-1287).
"""

import math
from typing import Final

from msgspec import Struct

from pykubelet.base.text import cut
from pykubelet.base.units import KIB
from pykubelet.kubelet.types.podspec import AnyContainer
from pykubelet.kubelet.types.resources.pod_requests import (
    CPU,
    HUGEPAGES_PREFIX,
    MEMORY,
    STORAGE,
    limit_declared,
    pod_limits,
    pod_requests,
)
from pykubelet.kubelet.types.resources.size import Size
from pykubelet.kubelet.types.runtime import ContainerResources
from pykubelet.models.core_v1 import Pod, ResourceRequirements, VolumeMount, VolumeMountStatus
from pykubelet.models.quantity import NANO, Amount, from_bytes, from_milli, to_bytes, to_milli
from pykubelet.models.scalars import Quantity

MIN_CPU_SHARES: Final = 2
"""The kernel's lowest CPU weight; smaller requests are raised to it, so it does not reveal the requested amount."""
MIN_CPU_LIMIT_MILLI: Final = 10
"""The lowest CPU limit that is applied."""
_MAX_PATH: Final = 4 * KIB
"""Maximum bytes of a mount's path, as of the kernel; the container of a longer one cannot start."""
_NONE: Final = ResourceRequirements()


class _AppliedAmounts(Struct, frozen=True):
    """Amounts that are applied. None: unknown; the spec's amount is assumed to be applied."""

    cpu_request: int | None = None
    cpu_limit: int | None = None
    memory_request: int | None = None
    memory_limit: int | None = None


def status_resources(
    container: AnyContainer, applied: ContainerResources | None, size: Size | None = None
) -> ResourceRequirements:
    """Return a running container's resources: as the runtime reports, else as the agent recorded, else the spec's.

    ``size`` is the agent's record while a resize of the pod is in progress, None otherwise.
    """
    spec = container.resources or _NONE
    found = _amounts(applied, size)
    limits = dict(spec.limits)
    if limits:
        _cpu(limits, found.cpu_limit, MIN_CPU_LIMIT_MILLI)
        _memory(limits, found.memory_limit)
    requests = dict(spec.requests)
    if requests:
        _cpu(requests, found.cpu_request, MIN_CPU_SHARES)
        _memory(requests, found.memory_request)
    return ResourceRequirements(limits=limits, requests=requests, claims=spec.claims)


def pod_resources(pod: Pod) -> ResourceRequirements:
    """Return CPU and memory of the pod as a whole once all of them are applied (KEP-5419). Raises Invalid."""
    requests, limits = pod_requests(pod), pod_limits(pod)
    counted = (CPU, MEMORY)
    return ResourceRequirements(
        requests={name: _text(name, requests.amount(name)) for name in counted if requests.amount(name).nano},
        limits={
            name: _text(name, limits.amount(name))
            for name in counted
            if limits.amount(name).nano and limit_declared(pod, name)
        },
    )


def pod_allocated(pod: Pod) -> dict[str, Quantity]:
    """Return all resources allocated to the pod, including its overhead. Raises Invalid."""
    return {name: _text(name, amount) for name, amount in pod_requests(pod).by_name.items()}


def mount_statuses(container: AnyContainer, *, recursive_read_only: bool) -> tuple[VolumeMountStatus, ...]:
    """Return the container's mounts; read-only ones tell whether mounts below are read-only too (KEP-3857)."""
    return tuple(_mount_status(mount, recursive_read_only) for mount in container.volume_mounts)


def _mount_status(mount: VolumeMount, supported: bool) -> VolumeMountStatus:
    mode = ""
    if mount.read_only:
        wanted = mount.recursive_read_only in ("Enabled", "IfPossible")
        alone = mount.mount_propagation in ("", "None")
        mode = "Enabled" if wanted and alone and supported else "Disabled"
    return VolumeMountStatus(
        name=mount.name,
        mount_path=cut(mount.mount_path, _MAX_PATH),
        read_only=mount.read_only,
        recursive_read_only=mode,
    )


def _amounts(applied: ContainerResources | None, size: Size | None) -> _AppliedAmounts:
    noted = _AppliedAmounts()
    if size is not None:
        noted = _AppliedAmounts(
            size.cpu_request or None, size.cpu_limit or None, size.memory_request or None, size.memory_limit or None
        )
    if applied is None:
        return noted
    limit = None
    if applied.cpu_quota_us and applied.cpu_period_us and applied.cpu_quota_us > 0:
        limit = applied.cpu_quota_us * 1000 // applied.cpu_period_us or None
    request = math.ceil(applied.cpu_shares * 1000 / 1024) if applied.cpu_shares else None
    memory = applied.memory_limit_bytes if applied.memory_limit_bytes and applied.memory_limit_bytes > 0 else None
    return _AppliedAmounts(
        request or noted.cpu_request, limit or noted.cpu_limit, noted.memory_request, memory or noted.memory_limit
    )


def _text(name: str, amount: Amount) -> str:
    """Format an amount: bytes with binary suffixes, others as counted. Nothing is rounded."""
    in_bytes = name in (MEMORY, STORAGE) or name.startswith(HUGEPAGES_PREFIX)
    return from_bytes(amount.value) if in_bytes and amount.nano % NANO == 0 else str(amount)


def _cpu(amounts: dict[str, Quantity], applied_milli: int | None, floor_milli: int) -> None:
    if applied_milli is None:
        return
    asked = to_milli(amounts["cpu"]) if "cpu" in amounts else 0
    # At or below the floor different amounts have the same effect, so the requested one is shown.
    if asked != applied_milli and (applied_milli > floor_milli or asked > floor_milli):
        amounts["cpu"] = from_milli(applied_milli)


def _memory(amounts: dict[str, Quantity], applied_bytes: int | None) -> None:
    if applied_bytes is not None and ("memory" not in amounts or to_bytes(amounts["memory"]) != applied_bytes):
        amounts["memory"] = from_bytes(applied_bytes)
