"""Health of the container runtime: whether it responds and is ready; its recovery wakes the pods' workers.

The workers (is the network ready?) and the health checks read it. Imports no other stage. Start reading in
``manager.py``.
"""

from pykubelet.kubelet.observe.runtimehealth.manager import RuntimeHealth, RuntimeHealthDeps

__all__ = ["RuntimeHealth", "RuntimeHealthDeps"]
