"""Locks of volumes."""

import pytest

from pykubelet.base.errors import Transient
from pykubelet.kubelet.actuate.volumes.csi.csi_locks import VolumeLocks
from pykubelet.kubelet.actuate.volumes.csi.csi_types import VolumeRef


async def test_pod_that_waits_for_another_one_to_set_up_its_volume_says_so() -> None:
    """One that gives millions of files to its group takes hours."""
    ref = VolumeRef("fake.csi", "vol-1")
    locks = VolumeLocks(patience=0.05)
    async with locks.hold(ref), locks.hold(VolumeRef("fake.csi", "vol-2")):
        with pytest.raises(Transient, match=r"given volume vol-1 .* is still in progress"):
            async with locks.hold(ref):
                pass
    async with locks.hold(ref):
        pass
