"""Counts the resizes that a new pod spec requests, with the Go kubelet's labels. Pure."""

from collections.abc import Iterator

from pykubelet.kubelet.types.resources.pod_requests import CPU, MEMORY, amounts, requirements
from pykubelet.models.core_v1 import Container, Pod


def requested_resizes(before: Pod, after: Pod) -> Iterator[tuple[str, str, str]]:
    """Yield resource, ``requests`` or ``limits``, and operation for every change of a resizable container.

    The operation is add, remove, increase or decrease. Raises Invalid for invalid quantities.
    """
    wanted = {container.name: container for container in _resizable(after)}
    for old in _resizable(before):
        new = wanted.get(old.name)
        if new is None or new.resources == old.resources:
            continue
        had, has = requirements(old), requirements(new)
        for requirement, was, now in (("requests", had.requests, has.requests), ("limits", had.limits, has.limits)):
            a, b = amounts(was), amounts(now)
            for resource, from_, to in ((MEMORY, a.memory, b.memory), (CPU, a.cpu, b.cpu)):
                operation = _operation(from_, to)
                if operation:
                    yield resource, requirement, operation


def _resizable(pod: Pod) -> tuple[Container, ...]:
    return (*pod.spec.init_containers, *pod.spec.containers)


def _operation(before: int, after: int) -> str:
    if before == after:
        return ""
    if not before:
        return "add"
    if not after:
        return "remove"
    return "increase" if after > before else "decrease"
