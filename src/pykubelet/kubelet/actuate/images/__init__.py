"""Images: owns pulls, their bounds and back-off, and what is known of the images on this machine.

The pod runtime asks for a container's image before it creates the container; the volume manager asks for the
image of an image volume.
"""

from pykubelet.kubelet.actuate.images.manager import ImageManager
from pykubelet.kubelet.actuate.images.types import ImageConfig, ImageDeps

__all__ = ["ImageConfig", "ImageDeps", "ImageManager"]
