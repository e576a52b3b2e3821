"""Graceful node shutdown: ends the pods before the machine goes down, by priority, while logind waits.

``plan/groups.py`` decides which pods end together and with which grace period. Imports no other stage. Start reading in
``shutdown_manager.py``; logind's client is `pykubelet.linux.dbus.logind`.
"""

from pykubelet.kubelet.observe.node_shutdown.shutdown_interfaces import ShutdownConfig, ShutdownDeps
from pykubelet.kubelet.observe.node_shutdown.shutdown_manager import NodeShutdown

__all__ = ["NodeShutdown", "ShutdownConfig", "ShutdownDeps"]
