"""The registry client: OCI distribution and Docker registry v2, as far as pulling needs it.

Used by ``images.manager`` for the time of a pull. What registries answer is not trusted: credentials go to the one host
they are for, documents are bounded, and blobs are checked against digest and size while they come in.
"""

from pykubelet.criserver.images.registry.client import RegistryClient
from pykubelet.criserver.images.registry.config import Host, Tls

__all__ = ["Host", "RegistryClient", "Tls"]
