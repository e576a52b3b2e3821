"""Reads the manifests that a command is given, and refuses them as a whole if anything in them is wrong."""

from collections.abc import Sequence
from pathlib import Path

from pykubelet.base.errors import Permanent
from pykubelet.base.text import printable
from pykubelet.cli.changes.check_sources import machine_capacity
from pykubelet.cli.changes.manifest_files import read_texts
from pykubelet.cli.terminal import echo
from pykubelet.kubelet.desired.changes import Document, InputObject, check_documents
from pykubelet.kubelet.types.reports.node_view import NodeView


def read_objects(files: Sequence[Path], node: NodeView | None = None, *, namespace: str = "") -> list[InputObject]:
    """Check all files as ``pykubelet check`` does; return their objects, ConfigMaps and Secrets before the pods.

    ``node`` is the node that is to run them; ``namespace`` is that of objects that name none (empty: ``default``).
    After errors, prints all findings and exits with 1, so that a command acts on everything or on nothing.
    Conflict: an object names another namespace. Permanent: a file cannot be read, or nothing is in it.
    """
    documents = read_documents(files)
    if not documents:
        names = ", ".join(printable(str(file)) for file in files)
        raise Permanent(f"{names}: no object found; write a Pod, ConfigMap or Secret")
    checked = check_documents(documents, node, namespace=namespace, capacity=machine_capacity())
    for finding in checked.findings:
        echo(finding, err=True)
    if checked.errors:
        echo(f"error: {checked.errors} problem{'' if checked.errors == 1 else 's'}; nothing was changed", err=True)
        raise SystemExit(1)
    return list(checked.given)


def read_documents(files: Sequence[Path]) -> list[Document]:
    """Return the texts of files, directories and the standard input. Permanent: one cannot be read."""
    return [Document(origin, data) for origin, data in read_texts(files)]
