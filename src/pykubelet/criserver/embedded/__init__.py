"""The runtime supervisor: runs a runtime server beside the agent. It finds a running one, or starts and restarts it.

The server is a daemon in its own session. It outlives the agent; the next agent finds it by the note in the server's
run directory. Used by ``pykubelet run`` when no other runtime is configured. Imports of the server: ``config``,
``types``. Start reading at ``supervisor.py``.
"""

from pykubelet.criserver.embedded.note import note_of, read_note, write_note
from pykubelet.criserver.embedded.supervisor import RuntimeSupervisor, SupervisorConfig
from pykubelet.criserver.embedded.supervisor_types import ServerNote

__all__ = ["RuntimeSupervisor", "ServerNote", "SupervisorConfig", "note_of", "read_note", "write_note"]
