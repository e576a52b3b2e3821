"""Node capacity and node allocatable: the resources of the machine, and those that pods may use. Pure.

Allocatable = capacity - kubeReserved - systemReserved - hard eviction threshold (Kubernetes documentation, "Reserve
Compute Resources for System Daemons"). Amounts and rounding are those of the Go kubelet's
``GetNodeAllocatableAbsolute`` and ``GetNodeAllocatableReservation`` (``pkg/kubelet/cm``) and ``MachineInfo``
(``pkg/kubelet/nodestatus``).
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from pykubelet.base.errors import Invalid
from pykubelet.base.units import Bytes
from pykubelet.kubelet.types.resources.eviction import MEMORY_SIGNAL, NODEFS_SIGNAL, percentage
from pykubelet.kubelet.types.resources.pod_requests import CPU, HUGEPAGES_PREFIX, MEMORY, STORAGE
from pykubelet.models.quantity import NANO, Amount, Notation, parse
from pykubelet.models.scalars import Quantity

PODS = "pods"
_SIGNALS = {MEMORY: MEMORY_SIGNAL, STORAGE: NODEFS_SIGNAL}
"""The signal whose hard eviction threshold stays free, by resource."""


class MachineResources(Struct, frozen=True, kw_only=True):
    """The resources of the machine."""

    cpus: int
    memory: Bytes
    hugepages: Mapping[Bytes, Bytes] = field(default_factory=dict)
    """Reserved huge pages: bytes by page size."""
    storage: Bytes | None = None
    """Size of the file system of the agent's root directory; None: local storage is not managed."""


class Reservations(Struct, frozen=True, kw_only=True):
    """Resources that pods must not use, from the configuration."""

    kube: Mapping[str, Quantity] = field(default_factory=dict)
    """``kubeReserved``, by resource."""
    system: Mapping[str, Quantity] = field(default_factory=dict)
    """``systemReserved``, by resource."""
    hard: Mapping[str, str] = field(default_factory=dict)
    """Hard eviction thresholds in force, by signal: quantities or percentages."""


def pod_limit(max_pods: int, pods_per_core: int, cpus: int) -> int:
    """Return the maximum number of pods on the node; ``pods_per_core`` 0 means no limit by CPUs."""
    return min(max_pods, pods_per_core * cpus) if pods_per_core > 0 else max_pods


def node_capacity(machine: MachineResources) -> dict[str, Amount]:
    """Return the amounts of all compute resources of the machine, by resource; the number of pods is not among them."""
    found = {CPU: Amount(machine.cpus * NANO), MEMORY: _bytes(machine.memory)}
    if machine.storage is not None:
        found[STORAGE] = _bytes(machine.storage)
    for size, total in machine.hugepages.items():
        found[f"{HUGEPAGES_PREFIX}{_bytes(size)}"] = _bytes(total)
    return found


def node_status_capacity(machine: MachineResources, pods: int) -> dict[str, Amount]:
    """Return what the Node object shows as the node's capacity: its compute resources, and the number of pods."""
    return {**node_capacity(machine), PODS: Amount(pods * NANO)}


def unreserved(capacity: Mapping[str, Amount], reservations: Reservations) -> dict[str, Amount]:
    """Return capacity without kubeReserved and systemReserved, never below 0: the limit of all pods together.

    As ``GetNodeAllocatableAbsolute``: the eviction threshold is included, so that eviction can act before the limit.
    Raises Invalid for an invalid quantity.
    """
    return {name: _minus(amount, [_reserved(name, reservations)]) for name, amount in capacity.items()}


def node_allocatable(capacity: Mapping[str, Amount], reservations: Reservations) -> dict[str, Amount]:
    """Return the amounts that the scheduler and admission may give to pods, by resource, never below 0.

    The memory of reserved huge pages is not allocatable as memory. Raises Invalid for an invalid quantity or threshold.
    """
    found = {
        name: _minus(amount, [_reserved(name, reservations), _threshold(name, amount, reservations)])
        for name, amount in capacity.items()
    }
    pages = (amount.nano for name, amount in capacity.items() if name.startswith(HUGEPAGES_PREFIX))
    if MEMORY in found:
        found[MEMORY] = _minus(found[MEMORY], pages)
    return found


def too_much_reserved(capacity: Mapping[str, Amount], reservations: Reservations) -> dict[str, Amount]:
    """Return what is reserved, hard eviction threshold included, of each resource of which there is less."""
    found = {}
    for name, amount in capacity.items():
        wanted = _reserved(name, reservations) + _threshold(name, amount, reservations)
        if wanted > amount.nano:
            found[name] = Amount(wanted, amount.notation)
    return found


def written(amounts: Mapping[str, Amount]) -> dict[str, Quantity]:
    """Return the amounts as canonical quantities."""
    return {name: str(amount) for name, amount in amounts.items()}


def _reserved(name: str, reservations: Reservations) -> int:
    return sum(parse(given[name]).nano for given in (reservations.kube, reservations.system) if name in given)


def _threshold(name: str, capacity: Amount, reservations: Reservations) -> int:
    """Return the hard eviction threshold of the resource in nano units; 0: it has no threshold.

    0 % and 100 % turn a threshold off. The Go kubelet keeps a percentage as a 32-bit float, and rounds the product
    with the capacity down: 10 % of 100 GiB is 160 bytes more than a tenth.
    """
    text = reservations.hard.get(_SIGNALS.get(name, ""))
    if text is None:
        return 0
    if not text.endswith("%"):
        return parse(text).nano
    try:
        share = percentage(text)
    except (ValueError, OverflowError) as error:
        raise Invalid(f"evictionHard: {_SIGNALS[name]}: {text!r} is not a percentage") from error
    return 0 if share in (0.0, 1.0) else int(float(capacity.value) * share) * NANO


def _minus(amount: Amount, parts: Iterable[int]) -> Amount:
    return Amount(max(0, amount.nano - sum(parts)), amount.notation)


def _bytes(number: int) -> Amount:
    return Amount(number * NANO, Notation.BINARY)
