"""Manifests: from the bytes of a file or a URL to checked objects, with every problem named.

``tree`` (text to values with lines) → ``walk`` (values to typed objects, strictly) → ``defaults`` → ``validate``;
``parse`` runs them all, ``static`` then makes a node's static pod of a pod. Everything but ``check`` is pure.
Called by ``desired.sources`` and by ``pykubelet check``.
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
