"""Unpacked image layers, and the root file systems of containers that are stacked from them.

A layer is a directory with a short number as its name, shared by all images that have it. A container gets an overlay
mount of its image's layers with a writable directory on top, and directories for the volumes that its image declares.
Called by ``container`` (root file systems) and, through the interface ``LayerStore``, by ``images`` (layers). What is
removed goes to the trash, which is deleted in the background. The disk and the mount table are the only state; there is
no database. Imports of the server: ``images``, ``types``, ``unpack``. Start reading at ``layers.py``, then
``snapshots.py``, ``volumes.py`` and ``trash.py``.
"""

from pykubelet.criserver.storage.layers import Layers
from pykubelet.criserver.storage.snapshots import RootfsUsage, Snapshots
from pykubelet.criserver.storage.volumes import VolumeRequest

__all__ = ["Layers", "RootfsUsage", "Snapshots", "VolumeRequest"]
