"""Log rotation: rotates logs of running containers that have grown too large.

``kubelet/compose/agent.py`` runs it. It checks file sizes, and calls the runtime only when a log has to be rotated, so
idle pods cost no calls. Start reading in ``manager.py``; ``decide.py`` (pure) has names and order of the files,
``files.py`` the file operations. May import ``criconfig`` and ``kubelet/types``.
"""

from pykubelet.kubelet.actuate.logs.manager import LogRotation
from pykubelet.kubelet.actuate.logs.types import RotationConfig

__all__ = ["LogRotation", "RotationConfig"]
