"""Images: pulled from registries or read from archives, kept as blobs, unpacked by ``storage``.

Called by the image service, and by the container manager for what an image says of its process.
"""

from pykubelet.criserver.images.content import ContentStore
from pykubelet.criserver.images.index import ImageIndex
from pykubelet.criserver.images.manager import ImageDeps, ImageManager
from pykubelet.criserver.images.manifests import Platform
from pykubelet.criserver.images.reference import Reference, parse
from pykubelet.criserver.images.types import (
    AuthConfig,
    FsInfo,
    ImageConfig,
    ImageRecord,
    Layer,
    OnProgress,
    Phase,
    Progress,
)

__all__ = [
    "AuthConfig",
    "ContentStore",
    "FsInfo",
    "ImageConfig",
    "ImageDeps",
    "ImageIndex",
    "ImageManager",
    "ImageRecord",
    "Layer",
    "OnProgress",
    "Phase",
    "Platform",
    "Progress",
    "Reference",
    "parse",
]
