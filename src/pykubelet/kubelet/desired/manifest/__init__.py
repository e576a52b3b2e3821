"""Manifests: reads the bytes of a file or a URL into validated objects, and reports every problem.

``tree`` (text to values with lines) → ``walk`` (values to typed objects, strictly) → ``defaults`` → ``validate``;
``parse`` runs them all; ``static`` then turns a manifest's pod into a static pod of the node. All modules but ``check``
are pure. Called by ``desired.sources`` and by ``pykubelet check``. Imports ``models`` and ``base``. Start reading in
``parse.py``.
"""

from pykubelet.kubelet.desired.manifest.check import CheckResult, check_file, read_manifest
from pykubelet.kubelet.desired.manifest.parse import parse
from pykubelet.kubelet.desired.manifest.static import adopt
from pykubelet.kubelet.desired.manifest.types import (
    LocalObject,
    Manifest,
    ManifestObject,
    ObjectKey,
    Problem,
    key_of,
)

__all__ = [
    "CheckResult",
    "LocalObject",
    "Manifest",
    "ManifestObject",
    "ObjectKey",
    "Problem",
    "adopt",
    "check_file",
    "key_of",
    "parse",
    "read_manifest",
]
