"""Manifests: reads bytes into validated objects, and reports every problem.

``tree`` (text to values with lines) → ``walk`` (values to typed objects, strictly) → ``defaults`` → ``validate``;
``parse`` runs them all; ``static`` then turns a manifest's pod into a static pod of the node. All modules are
pure. Called by ``desired.sources`` and ``manifest_file.py``, which reads files. Imports ``models`` and ``base``.
Start reading in ``parse.py``.
"""

from pykubelet.kubelet.desired.manifest.manifest_types import (
    LocalObject,
    Manifest,
    ManifestObject,
    ObjectKey,
    Problem,
    key_of,
)
from pykubelet.kubelet.desired.manifest.parse import parse
from pykubelet.kubelet.desired.manifest.static import adopt

__all__ = [
    "LocalObject",
    "Manifest",
    "ManifestObject",
    "ObjectKey",
    "Problem",
    "adopt",
    "key_of",
    "parse",
]
