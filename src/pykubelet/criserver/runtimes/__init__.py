"""Runtimes for the processes of containers: one interface, and its implementation by conmon with an OCI runtime.

``runtime_interfaces.py`` says what sandboxes and containers ask of a runtime; ``monitored.py`` does it with a conmon
for each container. The other implementation is the package ``shim``. ``handlers.py`` has the configured runtimes by
name. Used by ``container``, ``sandbox``, ``server`` and ``shim``. Imports of the server: ``conmon``, ``oci``,
``streaming``, ``types``. Start reading at ``runtime_interfaces.py``.
"""

from pykubelet.criserver.runtimes.handlers import RuntimeHandlers
from pykubelet.criserver.runtimes.monitored import MonitoredRuntime
from pykubelet.criserver.runtimes.runtime_interfaces import ContainerRuntime, FoundTask, Task, TaskStreams

__all__ = ["ContainerRuntime", "FoundTask", "MonitoredRuntime", "RuntimeHandlers", "Task", "TaskStreams"]
