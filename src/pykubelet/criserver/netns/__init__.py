"""The pinned namespaces of sandboxes: network, IPC and host name live in files, no process holds them."""

from pykubelet.criserver.netns.manager import PinnedNamespaces
from pykubelet.criserver.netns.types import Kind, NamespaceSpec

__all__ = ["Kind", "NamespaceSpec", "PinnedNamespaces"]
