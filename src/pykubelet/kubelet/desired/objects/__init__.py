"""ConfigMaps, Secrets and the other API objects that pods of this node refer to.

:class:`LocalObjects` has those of manifests, filled by ``desired.sources``; ``cluster.py`` adds those of the API server
behind the same interface :class:`Objects`, and tokens, certificates and storage objects. Volumes, environment variables
and image pulls read them. Imports no other stage. Start reading in ``local.py``, or ``cluster.py`` for node mode.
"""

from pykubelet.kubelet.desired.objects.interfaces import Objects
from pykubelet.kubelet.desired.objects.local import LocalObjects
from pykubelet.kubelet.desired.objects.references import references

__all__ = ["LocalObjects", "Objects", "references"]
