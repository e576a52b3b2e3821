"""Unpacked layers, and the root file systems that are stacked from them.

A layer is a directory with a short number for its name, shared by all images that have it; a container gets an overlay
mount of its image's layers with a writable directory on top. Called by the container manager (root file systems) and by
``images`` (layers), which knows it as a port only. What is on the disk and mounted is the truth; there is no database.
"""

from pykubelet.criserver.storage.layers import Layers
from pykubelet.criserver.storage.snapshots import RootfsUsage, Snapshots

__all__ = ["Layers", "RootfsUsage", "Snapshots"]
