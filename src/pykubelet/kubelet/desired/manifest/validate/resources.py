"""Rules for resource requests and limits."""

from collections.abc import Mapping
from typing import Final

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.desired.manifest import pod_level_resources
from pykubelet.kubelet.desired.manifest.pod_level_resources import HUGE_PAGES
from pykubelet.kubelet.desired.manifest.validate import names
from pykubelet.kubelet.desired.manifest.validate.findings import Findings
from pykubelet.models import core_v1 as core
from pykubelet.models import quantity
from pykubelet.models.quantity import Amount
from pykubelet.models.scalars import Quantity

_STANDARD: Final = ("cpu", "memory", "ephemeral-storage")
_POD_LEVEL: Final = ("cpu", "memory")
_FIELDS: Final = frozenset(
    f"{side}.{name}" for side in ("limits", "requests") for name in ("cpu", "memory", "ephemeral-storage")
)
_CPU_DIVISORS: Final = frozenset({"1m", "1"})
_SIZE_DIVISORS: Final = frozenset(["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"])


def check_resources(
    findings: Findings, resources: core.ResourceRequirements | None, path: str, claims: frozenset[str]
) -> None:
    """Check a container's requests and limits; ``claims`` are the names of the pod's resource claims."""
    if resources is None:
        return
    limits = _amounts(findings, resources.limits, f"{path}.limits")
    requests = _amounts(findings, resources.requests, f"{path}.requests")
    for name in limits | requests:
        side = "limits" if name in limits else "requests"
        _check_container_resource(findings, name, f"{path}.{side}[{name}]")
    _check_pairs(findings, requests, limits, path)
    if any(name.startswith(HUGE_PAGES) for name in limits | requests) and not {"cpu", "memory"} & set(
        limits | requests
    ):
        findings.add(path, "asks for huge pages but neither cpu nor memory", "add a cpu or memory request")
    for index, claim in enumerate(resources.claims):
        where = f"{path}.claims[{index}]"
        if findings.required(f"{where}.name", claim.name) and claim.name not in claims:
            findings.add(
                f"{where}.name", f"the pod has no resource claim {claim.name!r}", "add it to spec.resourceClaims"
            )


def check_pod_resources(findings: Findings, spec: core.PodSpec) -> None:
    """Check pod-level resources (KEP-2837)."""
    own, path = spec.resources, "spec.resources"
    if own is None:
        return
    if own.claims:
        findings.add(f"{path}.claims", "is not possible at pod level", "claim them in the containers")
    limits = _amounts(findings, own.limits, f"{path}.limits")
    requests = _amounts(findings, own.requests, f"{path}.requests")
    for name in limits | requests:
        if name not in _POD_LEVEL and not name.startswith(HUGE_PAGES):
            side = "limits" if name in limits else "requests"
            findings.add(
                f"{path}.{side}[{name}]", "is not possible at pod level", "only cpu, memory and huge pages are"
            )
    _check_pairs(findings, requests, limits, path)
    needed = pod_level_resources.aggregate(spec, pod_level_resources.requests_of)
    for name, amount in requests.items():
        if needed.get(name, 0) > amount.nano:
            message = f"is less than the {Amount(needed[name], amount.notation)} that the containers request"
            findings.add(f"{path}.requests[{name}]", message, "raise it")
    for index, container in enumerate(spec.containers):
        for name, limit in (container.resources or core.ResourceRequirements()).limits.items():
            own_limit = _parse(limit)
            if name in limits and own_limit is not None and own_limit.nano > limits[name].nano:
                where = f"spec.containers[{index}].resources.limits[{name}]"
                findings.add(
                    where, f"is more than the pod's own limit of {limits[name]}", "lower it, or raise the pod's"
                )


def check_overhead(findings: Findings, spec: core.PodSpec) -> None:
    """Check the overhead of a RuntimeClass in the pod's spec."""
    _amounts(findings, spec.overhead, "spec.overhead")


def check_resource_field(
    findings: Findings, reference: core.ResourceFieldSelector, path: str, *, in_volume: bool
) -> None:
    """Check a downward API reference to a container's resources."""
    if in_volume:
        findings.required(f"{path}.containerName", reference.container_name)
    if not findings.required(f"{path}.resource", reference.resource):
        return
    name = reference.resource.partition(".")[2]
    if reference.resource not in _FIELDS and not name.startswith(HUGE_PAGES):
        allowed = ", ".join(sorted(_FIELDS))
        findings.add(f"{path}.resource", f"{reference.resource!r} cannot be read", f"use one of {allowed}")
        return
    if reference.divisor is None:
        return
    divisor = _parse(reference.divisor)
    allowed_divisors = _CPU_DIVISORS if name == "cpu" else _SIZE_DIVISORS
    if divisor is not None and divisor.nano and str(reference.divisor) not in allowed_divisors:
        remedy = "use 1 or 1m" if name == "cpu" else "use 1, or one unit such as 1k or 1Mi"
        findings.add(f"{path}.divisor", f"{reference.divisor} is not possible for {name}", remedy)


def _amounts(findings: Findings, resources: Mapping[str, Quantity], path: str) -> dict[str, Amount]:
    """Return the valid amounts; malformed and negative ones are reported."""
    amounts = {}
    for name, value in resources.items():
        try:
            amount = quantity.parse(value)
        except Invalid as error:
            findings.add(f"{path}[{name}]", str(error))
            continue
        if amount.nano < 0:
            findings.add(f"{path}[{name}]", f"is {value}, but must not be negative")
        elif "/" in name and amount.nano % quantity.NANO:
            findings.add(f"{path}[{name}]", f"is {value}, but must be a whole number")
        else:
            amounts[name] = amount
    return amounts


def _check_container_resource(findings: Findings, name: str, where: str) -> None:
    if complaint := names.qualified_name(name):
        findings.complaint(where, complaint)
    elif name.startswith(HUGE_PAGES):
        size = _parse(name.removeprefix(HUGE_PAGES))
        if size is None or size.nano <= 0:
            findings.add(where, f"{name!r} names no page size", "write it as in hugepages-2Mi")
    elif "/" not in name and name not in _STANDARD:
        findings.add(
            where, f"{name!r} is no resource of a container", "use cpu, memory, ephemeral-storage or DOMAIN/NAME"
        )


def _check_pairs(findings: Findings, requests: Mapping[str, Amount], limits: Mapping[str, Amount], path: str) -> None:
    """Check that requests do not exceed limits, and equal them for resources that cannot be overcommitted."""
    for name, request in requests.items():
        limit = limits.get(name)
        where = f"{path}.requests[{name}]"
        overcommit = "/" not in name and not name.startswith(HUGE_PAGES)
        if limit is None:
            if not overcommit:
                findings.add(where, "has no limit, but cannot be overcommitted", "give a limit equal to the request")
        elif request.nano > limit.nano:
            findings.add(where, f"is {request}, more than the limit of {limit}", "lower it or raise the limit")
        elif request.nano != limit.nano and not overcommit:
            findings.add(where, f"is {request}, but must equal the limit of {limit}", "make them equal")


def _parse(value: Quantity) -> Amount | None:
    try:
        return quantity.parse(value)
    except Invalid:
        return None
