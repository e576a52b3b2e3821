"""Log rotation: rotates logs of running containers that have grown too large.

``kubelet/compose/agent.py`` runs it. It checks file sizes, and calls the runtime only when a log has to be rotated, so
idle pods cost no calls. Start reading in ``log_rotation.py``; ``plan/log_names.py`` (pure) has names and order of the
files, ``log_files.py`` the file operations. Imports of this stage: ``cri_messages``.
"""

from pykubelet.kubelet.actuate.logs.log_rotation import LogRotation
from pykubelet.kubelet.actuate.logs.log_types import RotationConfig

__all__ = ["LogRotation", "RotationConfig"]
