"""Validation of a manifest's objects, by the rules of the API server that matter on a node.

``manifest.parse`` calls it for each object after defaults are set. All modules are pure; a rule reports the field's
path, the violation and the remedy, and continues, so that one check reports all problems. Start reading in
``rules.py``. Imports no package beside it.
"""

from pykubelet.kubelet.desired.manifest.validate.rules import validate

__all__ = ["validate"]
