"""Pod sandboxes: namespaces, network, files and the infra process that a pod's containers share.

Used by ``server`` for CRI calls about sandboxes, and by ``container`` through a protocol. Imports ``netns``, ``cni``,
``spec``, ``conmon``, ``oci``, ``store``, ``events`` and ``types``, and of ``container`` only helpers; ``decide.py`` is
pure. Start reading at ``manager.py``.
"""

from pykubelet.criserver.sandbox.interfaces import Containers, SandboxDeps, SandboxDirectories
from pykubelet.criserver.sandbox.manager import SandboxManager
from pykubelet.criserver.sandbox.recovery import SandboxRecovery
from pykubelet.criserver.sandbox.state import Sandbox

__all__ = ["Containers", "Sandbox", "SandboxDeps", "SandboxDirectories", "SandboxManager", "SandboxRecovery"]
