"""Changes of the manifest directory on behalf of a user: documents are checked together, then each object is placed.

The local API does this for ``pykubelet apply``, and the command line by itself where it needs the objects. Writes files
of the manifest directory and nothing else; blocks. Start reading in ``apply.py``. Imports beside it: ``check``,
``manifest``, ``sources``.
"""

from pykubelet.kubelet.desired.changes.apply import apply_documents
from pykubelet.kubelet.desired.changes.documents import (
    CheckedDocuments,
    Document,
    InputObject,
    check_documents,
    keys_of,
)
from pykubelet.kubelet.desired.changes.manifest_directory import Change, ManifestDirectory

__all__ = [
    "Change",
    "CheckedDocuments",
    "Document",
    "InputObject",
    "ManifestDirectory",
    "apply_documents",
    "check_documents",
    "keys_of",
]
