"""The sync loop: receives events from the sources, the runtime and the probes, and hands each pod to its worker.

``sync_loop.py`` is the loop, ``events.py`` its events and their queue, ``housekeeping.py`` the cleanup of orphaned
pods, ``sync_interfaces.py`` what both need of the other stages. Imports no other stage. Start reading in
``sync_loop.py``.
"""

from pykubelet.kubelet.control.sync.sync_loop import SyncLoop

__all__ = ["SyncLoop"]
