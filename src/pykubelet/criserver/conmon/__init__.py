"""conmon, the container monitor: one small C process for each container, which outlives this server.

conmon calls ``runc create`` as the container's parent, writes the log in CRI format, opens the attach socket, and
writes the exit code to a file when the container ends. This package starts conmon (``launch.py``), communicates with it
(``files.py``) and clears the places of logs (``log_place.py``). Used by ``container`` and ``sandbox``. Imports of the
server: ``oci``, ``types``. Start reading at ``launch.py``.
"""

from pykubelet.criserver.conmon.files import ConmonControl, Exit, read_exit, reopen_log
from pykubelet.criserver.conmon.launch import Conmon, LaunchedContainer, LaunchParameters
from pykubelet.criserver.conmon.log_place import NextLog, clear_log_place, make_next_log

__all__ = [
    "Conmon",
    "ConmonControl",
    "Exit",
    "LaunchParameters",
    "LaunchedContainer",
    "NextLog",
    "clear_log_place",
    "make_next_log",
    "read_exit",
    "reopen_log",
]
