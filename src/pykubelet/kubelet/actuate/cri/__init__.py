"""The CRI client: the agent's only way to the container runtime. It owns the channel to the runtime's socket.

Callers are podruntime, images, probes (exec), stats and PLEG, each through the Protocols in its own `ports.py`.
One instance serves the whole agent; calls may run side by side.
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
