"""The registry client: OCI distribution and Docker registry v2, as far as pulling needs it.

Used by ``images.image_manager`` during a pull. Responses of registries are not trusted: credentials go to the one host
that they are for, documents are bounded, and blobs are checked against digest and size while they are received. Imports
``base`` and the pure modules of ``images``; start reading at ``client.py``.
"""

from pykubelet.criserver.images.registry.bandwidth import PullBandwidth
from pykubelet.criserver.images.registry.client import RegistryClient
from pykubelet.criserver.images.registry.config import HostConfig, Tls
from pykubelet.criserver.images.registry.host_directories import HostDirectories

__all__ = ["HostConfig", "HostDirectories", "PullBandwidth", "RegistryClient", "Tls"]
