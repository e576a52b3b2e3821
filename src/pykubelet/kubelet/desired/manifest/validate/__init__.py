"""The rules that a manifest's objects must keep: those of the API server's validation that matter on a node.

Called by ``manifest.parse`` for each object, defaults filled in. All modules are pure; a rule reports the field's
path, what is wrong and what to do, and goes on, so that one look shows everything there is to mend.
"""

from pykubelet.kubelet.desired.manifest.validate.rules import validate

__all__ = ["validate"]
