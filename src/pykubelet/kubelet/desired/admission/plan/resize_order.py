"""Order of requested resizes, needs of a pod during a resize, and infeasible resizes (pure).

Rules: KEP-1287. A pod that shrinks keeps its resources until its containers have released them.
"""

from collections.abc import Mapping, Set

from msgspec.structs import replace

from pykubelet.base.units import Seconds
from pykubelet.kubelet.desired.admission.admission_types import Needs, NodeProperties
from pykubelet.kubelet.desired.admission.plan.fit import needs_of
from pykubelet.kubelet.types.resources.pod_requests import CPU, MEMORY, Amounts, amounts, pod_requests, requirements
from pykubelet.kubelet.types.resources.qos import QosClass, pod_qos
from pykubelet.kubelet.types.resources.resize import sized
from pykubelet.kubelet.types.resources.size import Size
from pykubelet.models.core_v1 import Container, Pod


def rank(requested: Pod, allocated: Pod, since: Seconds) -> tuple[bool, int, bool, Seconds]:
    """Return a sort key of resizes: first those that do not grow, then by priority, QoS class and waiting time."""
    new, old = pod_requests(requested), pod_requests(allocated)
    grows = new.amount(CPU).nano > old.amount(CPU).nano or new.amount(MEMORY).nano > old.amount(MEMORY).nano
    guaranteed = pod_qos(requested) is QosClass.GUARANTEED
    return grows, -(requested.spec.priority or 0), not guaranteed, since


def needs_during_resize(allocated: Pod, applied: Mapping[str, Size]) -> Needs:
    """Return a pod's needs during a resize: for each resource the larger of the allocated and the applied amount."""
    needs = needs_of(allocated)
    spec = allocated.spec
    running = replace(
        allocated,
        spec=replace(
            spec,
            init_containers=tuple(_as_it_runs(c, applied) for c in spec.init_containers),
            containers=tuple(_as_it_runs(c, applied) for c in spec.containers),
        ),
    )
    most = dict(needs.requests.by_name)
    for name, amount in pod_requests(running).by_name.items():
        if name not in most or amount.nano > most[name].nano:
            most[name] = amount
    return replace(needs, requests=Amounts(most))


def swap_prevents_resize(requested: Pod, allocated: Pod, swapping: Set[str]) -> str:
    """Return why a container of ``swapping`` cannot be resized in memory while it runs; empty: no such resize."""
    before = {c.name: c for c in (*allocated.spec.init_containers, *allocated.spec.containers)}
    for container in (*requested.spec.init_containers, *requested.spec.containers):
        old = before.get(container.name)
        if container.name not in swapping or old is None or _restarts_for_memory(container):
            continue
        now, then = (amounts(requirements(c).requests).memory for c in (container, old))
        if now != then:
            return "In-place resize of containers with swap is not supported."
    return ""


def never_fits(wanted: Needs, node: NodeProperties) -> str:
    """Return why the node is too small even for this pod alone; empty: it is large enough."""
    for name in (CPU, MEMORY):
        asked = wanted.requests.cpu if name == CPU else wanted.requests.memory
        there = node.allocatable.cpu if name == CPU else node.allocatable.memory
        if asked > there:
            return f"Node didn't have enough capacity: {name}, requested: {asked}, capacity: {there}"
    return ""


def _restarts_for_memory(container: Container) -> bool:
    policy = next((each for each in container.resize_policy if each.resource_name == MEMORY), None)
    return policy is not None and policy.restart_policy == "RestartContainer"


def _as_it_runs(container: Container, applied: Mapping[str, Size]) -> Container:
    size = applied.get(container.name)
    return container if size is None else sized(container, size)
