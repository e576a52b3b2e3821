"""PLEG, the pod lifecycle event generator: sees what happened to containers and tells the sync loop.

It owns the last known list of the runtime's pods. `kubelet/main.py` runs it and hands its events to the sync loop,
which wakes the pods' workers; the workers read the state they act on from the runtime themselves, so an event is
a hint that may come twice but must not be late. Next on the pod's way: control/sync.
"""

from pykubelet.kubelet.observe.pleg.interfaces import NoMetrics, PlegDeps, PlegMetrics
from pykubelet.kubelet.observe.pleg.manager import Pleg
from pykubelet.kubelet.observe.pleg.types import PlegConfig

__all__ = ["NoMetrics", "Pleg", "PlegConfig", "PlegDeps", "PlegMetrics"]
