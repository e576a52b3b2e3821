"""Growing a volume on the node after its storage has grown: when, and what the claim's status says of it. Pure.

Source: KEP-1790 (`allocatedResourceStatuses`); patches are strategic merge patches of the claim's status.
"""

from typing import Final

from pykubelet.models.core_v1 import PersistentVolumeClaim
from pykubelet.models.scalars import Quantity

STORAGE: Final = "storage"
_IN_PROGRESS: Final = "NodeResizeInProgress"
_WAITING: Final = ("NodeResizePending", _IN_PROGRESS)
_ERROR: Final = "NodeResizeError"
_OF_GROWTH: Final = ("Resizing", "FileSystemResizePending", "ControllerResizeError", _ERROR)

Patch = dict[str, object]


def is_wanted(claim: PersistentVolumeClaim) -> bool:
    """Whether the controller has done its part and waits for the node's."""
    return claim.status.allocated_resource_statuses.get(STORAGE, "") in _WAITING


def begun(claim: PersistentVolumeClaim) -> Patch | None:
    """That the node is at it; None: the claim says so already."""
    if claim.status.allocated_resource_statuses.get(STORAGE) == _IN_PROGRESS:
        return None
    return _patch(claim, {"allocatedResourceStatuses": {STORAGE: _IN_PROGRESS}})


def done(claim: PersistentVolumeClaim, size: Quantity) -> Patch:
    """That the volume has that size now."""
    gone = [{"$patch": "delete", "type": c.type} for c in claim.status.conditions if c.type in _OF_GROWTH]
    fields: Patch = {"capacity": {STORAGE: size}, "allocatedResourceStatuses": {STORAGE: None}}
    return _patch(claim, {**fields, **({"conditions": gone} if gone else {})})


def failed(claim: PersistentVolumeClaim, error: str, now: str, *, infeasible: bool) -> Patch:
    """That it could not be; ``infeasible`` hands it back to the controller, else the node goes on trying."""
    condition = {
        "type": _ERROR,
        "status": "True",
        "lastTransitionTime": now,
        "message": f"failed to expand pvc with {error}",
    }
    fields: Patch = {"conditions": [condition]}
    if infeasible:
        fields["allocatedResourceStatuses"] = {STORAGE: "NodeResizeInfeasible"}
    return {"status": fields}


def _patch(claim: PersistentVolumeClaim, status: Patch) -> Patch:
    """Refused by the API server if somebody else has changed the claim meanwhile."""
    return {"metadata": {"resourceVersion": claim.metadata.resource_version}, "status": status}
