"""The settings of the runtime server: a TOML or YAML file and flags become one frozen value.

Imports of the server: ``spec``, ``types``. Start reading at ``settings.py``; only ``host_facts.py`` imports ``spec``.
"""

from pykubelet.criserver.config.image_policy import ImagePolicyFile, ImageRule
from pykubelet.criserver.config.load import load_settings
from pykubelet.criserver.config.metrics_address import MetricsAddress
from pykubelet.criserver.config.registries import RegistryTable
from pykubelet.criserver.config.settings import CgroupManager, Handler, HandlerType, RegistryHost, Settings

__all__ = [
    "CgroupManager",
    "Handler",
    "HandlerType",
    "ImagePolicyFile",
    "ImageRule",
    "MetricsAddress",
    "RegistryHost",
    "RegistryTable",
    "Settings",
    "load_settings",
]
