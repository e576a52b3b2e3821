"""The pinned namespaces of sandboxes: network, IPC, UTS and user namespaces are kept by files, not by a process.

Called by ``sandbox``. Imports of the server: ``types``. Start reading at ``namespace_manager.py``.
"""

from pykubelet.criserver.netns.namespace_manager import PinnedNamespaces, pinned_networks
from pykubelet.criserver.netns.namespace_types import NamespaceKind, NamespaceSpec

__all__ = ["NamespaceKind", "NamespaceSpec", "PinnedNamespaces", "pinned_networks"]
