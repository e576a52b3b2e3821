"""What other stages may rely on, whether objects come from manifests or, later, from an API server."""

from collections.abc import Callable
from typing import Protocol

from pykubelet.kubelet.desired.manifest.types import ObjectKey
from pykubelet.models.core_v1 import ConfigMap, Secret

Changed = Callable[[frozenset[ObjectKey]], None]
"""Called with the objects that were added, changed or removed."""


class Objects(Protocol):
    """A store of ConfigMaps and Secrets, in memory."""

    def get_config_map(self, namespace: str, name: str) -> ConfigMap:
        """The ConfigMap; raises NotFound with what to do."""

    def get_secret(self, namespace: str, name: str) -> Secret:
        """The Secret, ``string_data`` merged into ``data``; raises NotFound with what to do."""

    def subscribe(self, callback: Changed) -> Callable[[], None]:
        """Have changes told from now on; call the result to end it."""
