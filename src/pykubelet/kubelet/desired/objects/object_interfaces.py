"""The interface of a store of objects, from manifests or from an API server."""

from collections.abc import Callable
from typing import Protocol

from pykubelet.kubelet.desired.manifest.manifest_types import ObjectKey
from pykubelet.models.core_v1 import ConfigMap, Secret

Changed = Callable[[frozenset[ObjectKey]], None]
"""Called with the objects that were added, changed or removed."""


class Objects(Protocol):
    """A store of ConfigMaps and Secrets in memory."""

    def get_config_map(self, namespace: str, name: str) -> ConfigMap:
        """Return the ConfigMap; raises NotFound with a remedy."""

    def get_secret(self, namespace: str, name: str) -> Secret:
        """Return the Secret, ``string_data`` merged into ``data``; raises NotFound with a remedy."""

    def subscribe(self, callback: Changed) -> Callable[[], None]:
        """Call ``callback`` with changes from now on; call the result to unsubscribe."""
