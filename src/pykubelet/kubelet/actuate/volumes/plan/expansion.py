"""Volume expansion on the node: when it is required, and the patches of the claim's status. Pure.

Source: KEP-1790 (`allocatedResourceStatuses`), and KEP-531 for older controllers. Patches are strategic merge patches
of the claim's status.
"""

from typing import Final

from pykubelet.models.core_v1 import PersistentVolume, PersistentVolumeClaim
from pykubelet.models.quantity import to_value
from pykubelet.models.scalars import Quantity

STORAGE: Final = "storage"
_IN_PROGRESS: Final = "NodeResizeInProgress"
_WAITING: Final = ("NodeResizePending", _IN_PROGRESS)
_ERROR: Final = "NodeResizeError"
_EXPANSION_CONDITIONS: Final = ("Resizing", "FileSystemResizePending", "ControllerResizeError", _ERROR)

Patch = dict[str, object]


def is_wanted(claim: PersistentVolumeClaim) -> bool:
    """Whether the controller has expanded the storage and waits for the node."""
    return claim.status.allocated_resource_statuses.get(STORAGE, "") in _WAITING


def is_legacy(claim: PersistentVolumeClaim) -> bool:
    """Whether the claim may be that of an older controller, which sets no allocated resources and no statuses of them.

    Only then the node compares the sizes itself: if more is requested than the claim has, the PersistentVolume is read.
    """
    status = claim.status
    if status.allocated_resource_statuses.get(STORAGE) or status.allocated_resources:
        return False
    resources = claim.spec.resources
    return resources is not None and _more(resources.requests.get(STORAGE), status.capacity.get(STORAGE))


def is_wanted_by_size(claim: PersistentVolumeClaim, pv: PersistentVolume) -> bool:
    """Whether the storage of a claim for which `is_legacy` holds was expanded, and the node has to expand it."""
    return _more(pv.spec.capacity.get(STORAGE), claim.status.capacity.get(STORAGE))


def _more(size: Quantity | None, than: Quantity | None) -> bool:
    return size is not None and than is not None and to_value(size) > to_value(than)


def begun(claim: PersistentVolumeClaim) -> Patch | None:
    """Patch for an expansion in progress; None if the claim's status says so already."""
    if claim.status.allocated_resource_statuses.get(STORAGE) == _IN_PROGRESS or is_legacy(claim):
        return None
    return _patch(claim, {"allocatedResourceStatuses": {STORAGE: _IN_PROGRESS}})


def done(claim: PersistentVolumeClaim, size: Quantity) -> Patch:
    """Patch for a completed expansion to ``size``."""
    gone = [{"$patch": "delete", "type": c.type} for c in claim.status.conditions if c.type in _EXPANSION_CONDITIONS]
    fields: Patch = {"capacity": {STORAGE: size}, "allocatedResourceStatuses": {STORAGE: None}}
    return _patch(claim, {**fields, **({"conditions": gone} if gone else {})})


def failed(claim: PersistentVolumeClaim, error: str, now: str, *, infeasible: bool) -> Patch:
    """Patch for a failed expansion; ``infeasible`` returns it to the controller, else the node retries."""
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
    """Patch with the resourceVersion, so that the API server rejects it if the claim has changed meanwhile."""
    return {"metadata": {"resourceVersion": claim.metadata.resource_version}, "status": status}
