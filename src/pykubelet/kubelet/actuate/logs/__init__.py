"""Keeps the logs of running containers from filling the disk: rotates what has grown too large.

Run by ``main.py``. It looks at file sizes only; the runtime is asked when a log has to be rotated, so idle pods cost no
calls. ``decide.py`` says what becomes of the files, ``files.py`` does it, ``manager.py`` joins it with the runtime.
"""

from pykubelet.kubelet.actuate.logs.manager import LogRotation
from pykubelet.kubelet.actuate.logs.types import RotationConfig

__all__ = ["LogRotation", "RotationConfig"]
