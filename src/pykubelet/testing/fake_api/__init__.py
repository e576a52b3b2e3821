"""A small API server in the test's process, with those rules of kube-apiserver that a node agent depends on.

It has resource versions, watches with bookmarks and expiry, patches, graceful deletion of pods, subresources, and
faults on demand. The contract suite (``tests/contract/api``) runs on it and on the real kube-apiserver. Start reading
in ``server.py``; blocking tests use ``thread.py``. Imports no package beside it.
"""

from pykubelet.testing.fake_api.faults import Fault
from pykubelet.testing.fake_api.server import FakeApi

__all__ = ["FakeApi", "Fault"]
