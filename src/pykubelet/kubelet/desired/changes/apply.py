"""Applies documents to a manifest directory: all of them are checked before the first object is written."""

from collections.abc import Sequence

from pykubelet.base.errors import PykubeletError
from pykubelet.kubelet.desired.changes.documents import Document, InputObject, check_documents
from pykubelet.kubelet.desired.changes.manifest_directory import ManifestDirectory
from pykubelet.kubelet.desired.manifest import adopt
from pykubelet.kubelet.types.reports.node_view import ApplyView, ChangeView, NodeView
from pykubelet.kubelet.types.updates import Source
from pykubelet.models.core_v1 import Pod


def apply_documents(
    documents: Sequence[Document],
    directory: ManifestDirectory,
    node: NodeView,
    *,
    namespace: str = "",
    dry_run: bool = False,
) -> ApplyView:
    """Create or change the objects of the documents, unless anything in these is wrong; return what was done.

    All objects are placed without writing first; an error of that, or while they are written, is the view's fault,
    which has the changes until then.
    ``node``, ``namespace`` and the errors: as of :func:`check_documents`. Transient: the directory stays locked.
    Blocks.
    """
    checked = check_documents(documents, node, namespace=namespace, complete=False)
    findings = tuple(map(str, checked.findings))
    if checked.errors:
        return ApplyView(findings=findings, errors=checked.errors)
    if dry_run:
        changes, fault = _apply(checked.given, directory, write=False)
    else:
        with directory.locked():
            _, fault = _apply(checked.given, directory, write=False)
            if fault:
                return ApplyView(findings=findings, fault=f"{fault}; nothing was changed")
            changes, fault = _apply(checked.given, directory, write=True)
    return ApplyView(findings=findings, changes=tuple(changes), fault=fault)


def pod_uid(given: InputObject, origin: str, node_name: str) -> str:
    """Return the uid that the agent gives to this version of a pod of a file; empty: the object is no pod."""
    pod = given.item.value
    if not isinstance(pod, Pod):
        return ""
    return adopt(pod, given.item.digest, Source.FILE, origin, node_name).metadata.uid


def _apply(given: Sequence[InputObject], directory: ManifestDirectory, *, write: bool) -> tuple[list[ChangeView], str]:
    changes: list[ChangeView] = []
    try:
        for each in given:
            applied = directory.apply(each.item, each.text, write=write)
            uid = pod_uid(each, applied.origin, directory.node_name)
            namespace = each.item.key.namespace
            changes.append(ChangeView(label=each.label, namespace=namespace, change=str(applied.change), uid=uid))
    except PykubeletError as error:
        return changes, str(error)
    return changes, ""
