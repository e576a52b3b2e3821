"""The sync loop: takes news from the sources, the runtime and the probes and hands each pod to its worker.

``loop.py`` is the loop, ``housekeeping.py`` the search for what nobody wants any more.
"""

from pykubelet.kubelet.control.sync.loop import SyncLoop

__all__ = ["SyncLoop"]
