"""Containers: creation, start, update, exec, stop, removal, and recovery after a restart of the server.

Used by ``server`` for CRI calls about containers, and by the sandbox manager when a pod is stopped or removed. Imports
``spec``, ``conmon``, ``oci``, ``store``, ``events`` and ``types``; ``decide.py`` is pure. Start reading at
``manager.py``; ``create.py``, ``start.py``, ``stop.py`` and ``update.py`` implement the calls of these names.
"""

from pykubelet.criserver.container.interfaces import ContainerDeps
from pykubelet.criserver.container.manager import ContainerManager
from pykubelet.criserver.container.state import Container

__all__ = ["Container", "ContainerDeps", "ContainerManager"]
