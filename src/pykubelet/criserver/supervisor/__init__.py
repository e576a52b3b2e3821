"""Has a runtime server run beside the agent: finds the one that runs, starts one, starts it again when it dies.

The server is a daemon in a session of its own. It outlives the agent, whose next start finds it by the note that it
leaves in its run directory. Called by ``pykubelet run`` when no other runtime is named.
"""

from pykubelet.criserver.supervisor.manager import RuntimeSupervisor, SupervisorConfig
from pykubelet.criserver.supervisor.note import note_of, read_note, write_note
from pykubelet.criserver.supervisor.types import ServerNote

__all__ = ["RuntimeSupervisor", "ServerNote", "SupervisorConfig", "note_of", "read_note", "write_note"]
