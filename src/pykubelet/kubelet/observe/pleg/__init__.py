"""PLEG, the pod lifecycle event generator: detects changes of containers and posts events to the sync loop.

It owns the last known list of the runtime's pods. `kubelet/compose` passes its events to the sync loop, which wakes the
pods' workers. The workers read the state they act on from the runtime themselves, so an event is a hint: it may be
duplicated but must not be late. Imports no other stage. Start reading in `pleg.py`.
"""

from pykubelet.kubelet.observe.pleg.pleg import Pleg
from pykubelet.kubelet.observe.pleg.pleg_interfaces import PlegDeps, PlegMetrics
from pykubelet.kubelet.observe.pleg.pleg_types import PlegConfig

__all__ = ["Pleg", "PlegConfig", "PlegDeps", "PlegMetrics"]
