"""An API server in this process: small, but with the real one's rules where a node agent depends on them.

Resource versions, watches with bookmarks and their expiry, patches, graceful deletion of pods, subresources; and faults
on demand. The contract suite (``tests/contract/api``) runs on it and on the real kube-apiserver.
"""

from pykubelet.testing.fake_api.faults import Fault
from pykubelet.testing.fake_api.server import FakeApi

__all__ = ["FakeApi", "Fault"]
