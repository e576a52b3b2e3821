"""Watches whether the container runtime answers and is ready; wakes the pods when it comes back.

Run by ``main.py``; asked by the workers (is the network ready?) and by the health checks.
"""

from pykubelet.kubelet.observe.runtimehealth.manager import RuntimeHealth, RuntimeHealthDeps

__all__ = ["RuntimeHealth", "RuntimeHealthDeps"]
