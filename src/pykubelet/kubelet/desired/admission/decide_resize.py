"""In which order wishes for another size are granted, what a pod holds meanwhile, and what never fits (pure).

Rules: KEP-1287. A pod that shrinks keeps its room until its containers have given it back.
"""

from collections.abc import Mapping, Set
from dataclasses import replace

from msgspec.structs import replace as replace_struct

from pykubelet.base.units import Seconds
from pykubelet.kubelet.desired.admission.decide_fit import needs_of
from pykubelet.kubelet.desired.admission.types import Needs, NodeFacts
from pykubelet.kubelet.types.podresources import CPU, MEMORY, Amounts, amounts, pod_requests, requirements
from pykubelet.kubelet.types.qos import QosClass, pod_qos
from pykubelet.kubelet.types.resize import sized
from pykubelet.kubelet.types.size import Size
from pykubelet.models.core_v1 import Container, Pod


def rank(wished: Pod, allotted: Pod, since: Seconds) -> tuple[bool, int, bool, Seconds]:
    """A key to sort wishes by: first those that take no more, then by priority, by QoS class, and by waiting time."""
    new, old = pod_requests(wished), pod_requests(allotted)
    grows = new.amount(CPU).nano > old.amount(CPU).nano or new.amount(MEMORY).nano > old.amount(MEMORY).nano
    guaranteed = pod_qos(wished) is QosClass.GUARANTEED
    return grows, -(wished.spec.priority or 0), not guaranteed, since


def held(allotted: Pod, applied: Mapping[str, Size]) -> Needs:
    """What a pod takes of the node while a resize is under way: what it was allotted, or what still runs, if more."""
    needs = needs_of(allotted)
    spec = allotted.spec
    running = replace_struct(
        allotted,
        spec=replace_struct(
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


def swap_is_in_the_way(wished: Pod, allotted: Pod, swapping: Set[str]) -> str:
    """Why a container of ``swapping`` cannot get another memory request while it runs; empty if none wants one."""
    before = {c.name: c for c in (*allotted.spec.init_containers, *allotted.spec.containers)}
    for container in (*wished.spec.init_containers, *wished.spec.containers):
        old = before.get(container.name)
        if container.name not in swapping or old is None or _restarts_for_memory(container):
            continue
        now, then = (amounts(requirements(c).requests).memory for c in (container, old))
        if now != then:
            return "In-place resize of containers with swap is not supported."
    return ""


def never_fits(wanted: Needs, node: NodeFacts) -> str:
    """Why the node is too small for the pod alone; empty if it is not."""
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
