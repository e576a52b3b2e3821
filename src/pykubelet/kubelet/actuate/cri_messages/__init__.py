"""CRI configuration: pure functions that build the CRI messages of a pod from its spec and facts of the node.

Contains names, labels, environment, DNS, hosts files and security settings. The pod runtime calls
:func:`sandbox_config` and :func:`container_config`; the volume manager shares :mod:`.environment.downward`.

All modules are pure: no I/O, no time, no logging. Imports of this stage: ``cgroups``. Start reading in ``sandbox.py``
and ``container.py``; ``config_types.py`` has their inputs.
"""

from pykubelet.kubelet.actuate.cri_messages.config_types import (
    ConfigError,
    ConfigReason,
    ContainerContext,
    DownwardContext,
    EnvContext,
    Resolver,
    SandboxContext,
    SecurityConfig,
)
from pykubelet.kubelet.actuate.cri_messages.container import container_config
from pykubelet.kubelet.actuate.cri_messages.environment.env import container_environment
from pykubelet.kubelet.actuate.cri_messages.sandbox import sandbox_config

__all__ = [
    "ConfigError",
    "ConfigReason",
    "ContainerContext",
    "DownwardContext",
    "EnvContext",
    "Resolver",
    "SandboxContext",
    "SecurityConfig",
    "container_config",
    "container_environment",
    "sandbox_config",
]
