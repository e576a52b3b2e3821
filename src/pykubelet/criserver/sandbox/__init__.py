"""Pod sandboxes: namespaces, network, files and the infra process that a pod's containers share."""

from pykubelet.criserver.sandbox.interfaces import Containers, SandboxDeps, SandboxDirectories
from pykubelet.criserver.sandbox.manager import SandboxManager
from pykubelet.criserver.sandbox.recovery import SandboxRecovery
from pykubelet.criserver.sandbox.state import Sandbox

__all__ = ["Containers", "Sandbox", "SandboxDeps", "SandboxDirectories", "SandboxManager", "SandboxRecovery"]
