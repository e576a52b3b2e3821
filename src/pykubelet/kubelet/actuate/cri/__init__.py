"""CRI client: all calls of the agent to the container runtime, over one gRPC channel to its socket.

Callers are podruntime, images, probes (exec), stats and PLEG, each through the protocols in its own `*_interfaces.py`.
One instance serves the whole agent; calls may run concurrently.

Imports of this stage: ``cri_messages``. Start reading in `client.py`; `caller.py` has deadlines and measurements,
`errors.py` the mapping of gRPC codes, `events.py` the event streams.
"""

from pykubelet.kubelet.actuate.cri.caller import CriOptions
from pykubelet.kubelet.actuate.cri.client import CriClient
from pykubelet.kubelet.actuate.cri.errors import (
    CriConflict,
    CriError,
    CriFailed,
    CriInvalid,
    CriNotFound,
    CriRefused,
    CriTimeout,
    CriUnavailable,
    CriUnsupported,
)
from pykubelet.kubelet.actuate.cri.events import RuntimeEvents

__all__ = [
    "CriClient",
    "CriConflict",
    "CriError",
    "CriFailed",
    "CriInvalid",
    "CriNotFound",
    "CriOptions",
    "CriRefused",
    "CriTimeout",
    "CriUnavailable",
    "CriUnsupported",
    "RuntimeEvents",
]
