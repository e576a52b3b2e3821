"""Interfaces that the builders of CRI messages use."""

from typing import Protocol

from pykubelet.models.core_v1 import ConfigMap, Secret


class ConfigReader(Protocol):
    """Reads ConfigMaps and Secrets from memory, without waiting.

    Both methods raise NotFound for a missing object. A Secret's `string_data` is merged into its `data`.
    """

    def get_config_map(self, namespace: str, name: str) -> ConfigMap:
        """Return the ConfigMap of that name."""

    def get_secret(self, namespace: str, name: str) -> Secret:
        """Return the Secret of that name."""
