"""Builds the CRI messages that make a pod: pure functions from its spec and a few facts to messages.

Owns the layout of names, labels, environment, DNS, hosts files and security settings. The pod runtime calls
:func:`sandbox_config` and :func:`container_config`; the volume manager shares :mod:`.downward`.
"""

from pykubelet.kubelet.actuate.criconfig.container import container_config
from pykubelet.kubelet.actuate.criconfig.env import container_environment
from pykubelet.kubelet.actuate.criconfig.sandbox import sandbox_config
from pykubelet.kubelet.actuate.criconfig.types import (
    ConfigError,
    ConfigReason,
    ContainerContext,
    DownwardContext,
    EnvContext,
    Resolver,
    SandboxContext,
    SecurityConfig,
)

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
