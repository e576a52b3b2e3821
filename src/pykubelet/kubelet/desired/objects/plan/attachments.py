"""The reason why a volume is not attached, by its VolumeAttachment (pure)."""

from typing import Final

from pykubelet.base.errors import Transient
from pykubelet.kubelet.types.storage import AttachLimitExceeded
from pykubelet.models.storage_v1 import VolumeAttachment

_RESOURCE_EXHAUSTED: Final = 8
"""The gRPC code with which a driver tells that the node can have no more volumes (CSI, ControllerPublishVolume)."""


def not_attached(unique_name: str, name: str, attachment: VolumeAttachment | None) -> Transient:
    """Return the error for a volume that has not been attached in time; AttachLimitExceeded if the driver says that.

    ``attachment``: None if there is no VolumeAttachment ``name``.
    """
    begin = f"volume not attached according to node status: {unique_name}"
    if attachment is None:
        text = f"there is no VolumeAttachment {name}; is the cluster's attach/detach controller running?"
        return Transient(f"{begin}: {text}")
    failed = attachment.status.attach_error if attachment.status is not None else None
    if failed is None:
        text = f"see kubectl describe volumeattachment {name}; is the driver's external-attacher running?"
        return Transient(f"{begin}: {text}")
    kind = AttachLimitExceeded if failed.error_code == _RESOURCE_EXHAUSTED else Transient
    return kind(f"{begin}: VolumeAttachment {name}: {failed.message}")
