"""What the builders ask others for."""

from typing import Protocol

from pykubelet.models.core_v1 import ConfigMap, Secret


class ConfigReader(Protocol):
    """Hands out ConfigMaps and Secrets from memory, without waiting.

    Both raise base NotFound when there is none. A Secret's `string_data` is already merged into its `data`.
    """

    def get_config_map(self, namespace: str, name: str) -> ConfigMap:
        """The ConfigMap of that name."""

    def get_secret(self, namespace: str, name: str) -> Secret:
        """The Secret of that name."""
