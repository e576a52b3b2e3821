"""conmon, the container monitor: one small C process for each container, which outlives this server.

conmon calls ``runc create`` as the container's parent, writes the log in CRI format, opens the attach socket, and
writes the exit code to a file when the container ends. This package starts conmon (``launch.py``) and communicates with
it (``files.py``). Used by ``container`` and ``sandbox``. Imports of the server: ``oci``, ``types``. Start reading at
``launch.py``.
"""

from pykubelet.criserver.conmon.files import ConmonControl, Exit, clear_log_place, read_exit, reopen_log
from pykubelet.criserver.conmon.launch import Conmon, Launch, Launched

__all__ = ["Conmon", "ConmonControl", "Exit", "Launch", "Launched", "clear_log_place", "read_exit", "reopen_log"]
