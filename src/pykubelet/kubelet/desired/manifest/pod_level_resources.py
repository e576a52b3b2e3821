"""Pod-level resources (KEP-2837): the sums over a pod's containers, and defaults that follow from them. Pure."""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec.structs import replace

from pykubelet.base.errors import Invalid
from pykubelet.models import core_v1 as core
from pykubelet.models import quantity
from pykubelet.models.scalars import Quantity

Resources = Mapping[str, Quantity]
HUGE_PAGES: Final = "hugepages-"
_NONE: Final = core.ResourceRequirements()


def requests_of(resources: core.ResourceRequirements) -> Resources:
    """Return the requests."""
    return resources.requests


def limits_of(resources: core.ResourceRequirements) -> Resources:
    """Return the limits."""
    return resources.limits


def aggregate(spec: core.PodSpec, pick: Callable[[core.ResourceRequirements], Resources]) -> dict[str, int]:
    """Return a pod's peak needs in nano units by resource: the larger of running and of initialization.

    Sidecars run along with the containers; each other init container runs along with the sidecars before it (KEP-753).
    Malformed quantities count as zero: validation reports them.
    """
    running: dict[str, int] = {}
    for container in spec.containers:
        _add(running, _nano(container, pick))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.init_containers:
        needed = _nano(container, pick)
        if container.restart_policy == "Always":
            _add(sidecars, needed)
            _add(running, needed)
            needed = {}
        _raise(peak, {key: needed.get(key, 0) + sidecars.get(key, 0) for key in needed | sidecars})
    _raise(running, peak)
    return running


def pod_level_defaults(spec: core.PodSpec) -> core.ResourceRequirements | None:
    """Return the pod-level resources with defaults, if the pod has any."""
    own = spec.resources
    if own is None or not (own.limits or own.requests):
        return own
    limits = dict(own.limits)
    for name, nano in aggregate(spec, limits_of).items():
        if name.startswith(HUGE_PAGES) and name not in own.requests:
            limits.setdefault(name, str(quantity.Amount(nano, quantity.Notation.BINARY)))
    requests = dict(own.requests)
    if limits:
        for name, nano in aggregate(spec, requests_of).items():
            if name in ("cpu", "memory"):
                notation = quantity.Notation.BINARY if name == "memory" else quantity.Notation.DECIMAL
                requests.setdefault(name, str(quantity.Amount(nano, notation)))
        for name, limit in limits.items():
            if name in ("cpu", "memory") or name.startswith(HUGE_PAGES):
                requests.setdefault(name, limit)
    return replace(own, limits=limits, requests=requests)


def _nano(container: core.Container, pick: Callable[[core.ResourceRequirements], Resources]) -> dict[str, int]:
    amounts = {}
    for name, value in pick(container.resources or _NONE).items():
        try:
            amounts[name] = quantity.parse(value).nano
        except Invalid:
            continue
    return amounts


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, nano in more.items():
        total[name] = total.get(name, 0) + nano


def _raise(total: dict[str, int], other: Mapping[str, int]) -> None:
    for name, nano in other.items():
        total[name] = max(total.get(name, 0), nano)
