"""Images: pulls with limits and back-off, credentials, facts about images, and image garbage collection.

The pod runtime requests a container's image before it creates the container; the volume manager requests the image of
an image volume. May import ``actuate/cri``, ``criconfig/interfaces`` and ``kubelet/types``.
Start reading in ``manager.py`` (pulls) and ``gc.py`` (garbage collection); ``decide*.py`` are pure.
"""

from pykubelet.kubelet.actuate.images.manager import ImageManager
from pykubelet.kubelet.actuate.images.types import ImageConfig, ImageDeps

__all__ = ["ImageConfig", "ImageDeps", "ImageManager"]
