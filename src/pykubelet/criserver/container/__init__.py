"""Containers: creation, start, end, removal, and what is known of them.

Called by the server for each CRI call about containers, and by the sandbox manager when a pod is taken down.
"""

from pykubelet.criserver.container.interfaces import ContainerDeps
from pykubelet.criserver.container.manager import ContainerManager
from pykubelet.criserver.container.state import Container

__all__ = ["Container", "ContainerDeps", "ContainerManager"]
