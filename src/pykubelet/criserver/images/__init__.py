"""Images: pulled from registries or imported from archives, stored as blobs, and unpacked by ``storage``.

Called by the image service, and by ``container`` for the process configuration of an image. Imports of the server:
``unpack``. Layers are reached through ``LayerStore`` in ``image_interfaces.py``. Start reading at ``image_manager.py``,
then ``fetch.py`` (a pull) and ``content.py`` (the blob store); ``registry`` is the registry client.
"""

from pykubelet.criserver.images.content import ContentStore
from pykubelet.criserver.images.image_manager import ImageDeps, ImageManager, ImageSettings
from pykubelet.criserver.images.image_types import (
    AuthConfig,
    FsInfo,
    ImageConfig,
    ImageRecord,
    Layer,
    OnProgress,
    Phase,
    Progress,
)
from pykubelet.criserver.images.index import ImageIndex
from pykubelet.criserver.images.manifests import Platform

__all__ = [
    "AuthConfig",
    "ContentStore",
    "FsInfo",
    "ImageConfig",
    "ImageDeps",
    "ImageIndex",
    "ImageManager",
    "ImageRecord",
    "ImageSettings",
    "Layer",
    "OnProgress",
    "Phase",
    "Platform",
    "Progress",
]
