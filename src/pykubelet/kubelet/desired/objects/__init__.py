"""ConfigMaps, Secrets and the other API objects that pods of this node refer to.

:class:`LocalObjects` has those of manifests, filled by ``desired.sources``; ``cluster.py`` adds those of the API server
behind the same interface :class:`Objects`, and tokens, certificates and storage objects. Volumes, environment variables
and image pulls read them. Imports no other stage. Start reading in ``manifest_objects.py``, or ``cluster.py`` for node
mode.
"""

from pykubelet.kubelet.desired.objects.manifest_objects import LocalObjects
from pykubelet.kubelet.desired.objects.object_interfaces import Objects
from pykubelet.kubelet.desired.objects.plan.references import references

__all__ = ["LocalObjects", "Objects", "references"]
