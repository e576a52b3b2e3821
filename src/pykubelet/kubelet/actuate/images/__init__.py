"""Images: pulls with limits and back-off, credentials, facts about images, and image garbage collection.

The pod runtime requests a container's image before it creates the container; the volume manager requests the image of
an image volume. Imports of this stage: ``cri``. Start reading in ``image_manager.py`` (whether to pull), which hands
pulls to ``image_puller.py`` and so to ``pull_queue.py``, and ``image_gc.py`` (garbage collection); ``plan/`` is pure.
"""

from pykubelet.kubelet.actuate.images.credential_plugins import CredentialPlugins, PluginDeps
from pykubelet.kubelet.actuate.images.image_manager import ImageManager
from pykubelet.kubelet.actuate.images.image_types import ImageConfig, ImageDeps
from pykubelet.kubelet.actuate.images.node_credentials import NodeCredentials
from pykubelet.kubelet.actuate.images.pulled_images import PulledImages

__all__ = [
    "CredentialPlugins",
    "ImageConfig",
    "ImageDeps",
    "ImageManager",
    "NodeCredentials",
    "PluginDeps",
    "PulledImages",
]
