"""ConfigMaps and Secrets of this node: who has them, and which pods use them.

:class:`LocalObjects` holds those of the manifests, filled by ``desired.sources``, read by volumes, environment and
image pulls; an API-server backed store will offer the same :class:`Objects`.
"""

from pykubelet.kubelet.desired.objects.interfaces import Objects
from pykubelet.kubelet.desired.objects.local import LocalObjects
from pykubelet.kubelet.desired.objects.references import references

__all__ = ["LocalObjects", "Objects", "references"]
