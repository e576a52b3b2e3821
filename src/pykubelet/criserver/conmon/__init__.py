"""conmon: one small C process for each container, which outlives us.

It calls ``runc create`` as the container's parent, writes the log in CRI format, opens the attach socket, and leaves
the exit code in a file when the container ends.
"""

from pykubelet.criserver.conmon.files import Exit, read_exit, reopen_log
from pykubelet.criserver.conmon.launch import Conmon, Launch, Launched

__all__ = ["Conmon", "Exit", "Launch", "Launched", "read_exit", "reopen_log"]
