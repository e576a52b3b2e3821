"""Reasons why a volume is not attached."""

import pytest

from pykubelet.base.errors import Transient
from pykubelet.kubelet.desired.objects.plan.attachments import not_attached
from pykubelet.kubelet.types.storage import AttachLimitExceeded
from pykubelet.models.storage_v1 import VolumeAttachment, VolumeAttachmentStatus, VolumeError

BEGIN = "volume not attached according to node status: v: "


def attachment(error: VolumeError | None) -> VolumeAttachment:
    return VolumeAttachment(status=VolumeAttachmentStatus(attached=False, attach_error=error))


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (None, "there is no VolumeAttachment a; is the cluster's attach/detach controller running?"),
        (VolumeAttachment(), "see kubectl describe volumeattachment a; is the driver's external-attacher running?"),
        (attachment(None), "see kubectl describe volumeattachment a; is the driver's external-attacher running?"),
        (attachment(VolumeError(message="quota")), "VolumeAttachment a: quota"),
        (attachment(VolumeError(message="busy", error_code=10)), "VolumeAttachment a: busy"),
        (attachment(VolumeError(message="fine", error_code=0)), "VolumeAttachment a: fine"),
    ],
)
def test_volume_that_is_not_attached_for_another_reason_than_the_limit(
    found: VolumeAttachment | None, text: str
) -> None:
    error = not_attached("v", "a", found)
    assert (type(error), str(error)) == (Transient, BEGIN + text)


def test_volume_beyond_the_limit_of_the_node_is_distinguished() -> None:
    error = not_attached("v", "a", attachment(VolumeError(message="limit is 9", error_code=8)))
    assert (type(error), str(error)) == (AttachLimitExceeded, f"{BEGIN}VolumeAttachment a: limit is 9")
