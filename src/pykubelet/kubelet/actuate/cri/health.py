"""Converts the runtime's conditions from CRI Status."""

from pykubelet.kubelet.types.runtime import RuntimeConditions
from pykubelet.pb import runtime_v1_pb2 as pb


def runtime_conditions(status: pb.StatusResponse) -> RuntimeConditions:
    """Return the two required conditions, and the messages of all conditions that are not met."""
    conditions = {c.type: c for c in status.status.conditions}
    missing = [f"{c.type}: {c.message or c.reason}" for c in conditions.values() if not c.status]

    def met(name: str) -> bool:
        return name in conditions and conditions[name].status

    return RuntimeConditions(
        met("RuntimeReady"),
        met("NetworkReady"),
        "; ".join(missing),
        frozenset(handler.name for handler in status.runtime_handlers),
    )
