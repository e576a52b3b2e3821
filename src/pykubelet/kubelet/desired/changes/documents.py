"""Checks documents of manifests together, and cuts them into the objects to place."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.base.errors import Conflict, Permanent
from pykubelet.base.text import printable
from pykubelet.kubelet.desired.check import CheckFinding, CheckSource, Rule, Severity, check
from pykubelet.kubelet.desired.manifest import Manifest, ManifestObject, ObjectKey, parse
from pykubelet.kubelet.desired.manifest.edit import object_text, places
from pykubelet.kubelet.desired.manifest.namespaces import with_namespace
from pykubelet.kubelet.types.reports.node_view import NodeView
from pykubelet.models.scalars import Quantity

_ORDER: Final = ("ConfigMap", "Secret", "Pod")


class Document(Struct, frozen=True):
    """A file of manifests, or the standard input."""

    origin: str
    """Its name, for messages."""
    data: bytes


class InputObject(Struct, frozen=True):
    """A valid object of the input."""

    item: ManifestObject
    text: str
    """Its document as written."""

    @property
    def label(self) -> str:
        """Its name for people, as kubectl prints it: ``pod/demo``."""
        return f"{self.item.key.kind.lower()}/{self.item.key.name}"


class CheckedDocuments(Struct, frozen=True):
    """Findings of documents, and their objects if none of the findings is an error."""

    findings: tuple[CheckFinding, ...]
    given: tuple[InputObject, ...]
    """ConfigMaps and Secrets before the pods."""

    @property
    def errors(self) -> int:
        """Number of findings that are errors."""
        return sum(each.severity is Severity.ERROR for each in self.findings)


def check_documents(
    documents: Sequence[Document],
    node: NodeView | None,
    *,
    namespace: str = "",
    complete: bool = True,
    capacity: Mapping[str, Quantity] | None = None,
) -> CheckedDocuments:
    """Check all documents as ``pykubelet check`` does.

    ``node`` is the node that is to run them; without one they are checked against ``capacity``. ``namespace`` is that
    of objects that name none (empty: ``default``). With ``complete`` false, ConfigMaps and Secrets that a pod uses may
    follow later. Invalid: a namespace cannot be put into a text. Conflict: an object names another namespace.
    Permanent: there is no object.
    """
    documents = [_in_namespace(each, namespace) for each in documents]
    read = [(parse(each.data, printable(each.origin)), each.data) for each in documents]

    def findings_of(manifests: Sequence[Manifest]) -> tuple[CheckFinding, ...]:
        found = check([CheckSource(manifest) for manifest in manifests], node, capacity=capacity)
        weighed = (_weighed(each, node, complete=complete) for each in found)
        return tuple(each for each in weighed if each is not None)

    findings = findings_of([manifest for manifest, _ in read])
    if findings:
        # Positions of fields take more time than all the rest: they are looked for only where they are shown.
        findings = findings_of([parse(each.data, printable(each.origin), positions=True) for each in documents])
    checked = CheckedDocuments(findings, ())
    if checked.errors:
        return checked
    given = [each for manifest, data in read for each in _texts(manifest, data)]
    if not given:
        names = ", ".join(printable(each.origin) for each in documents)
        raise Permanent(f"{names or 'the directory'}: no object found; write a Pod, ConfigMap or Secret")
    return replace(checked, given=tuple(sorted(given, key=lambda each: _ORDER.index(each.item.key.kind))))


def keys_of(documents: Sequence[Document], namespace: str = "") -> list[ObjectKey]:
    """Return the objects that the documents name; they need not be valid.

    ``namespace`` as of :func:`check_documents`. Invalid: a text cannot be read.
    """
    read = [_in_namespace(each, namespace) for each in documents]
    keys = [place.key for each in read for place in places(each.data, printable(each.origin))]
    return [key for key in dict.fromkeys(keys) if key.kind in _ORDER]


def _in_namespace(document: Document, namespace: str) -> Document:
    if not namespace:
        return document
    return replace(document, data=with_namespace(document.data, namespace, printable(document.origin)))


def _weighed(finding: CheckFinding, node: NodeView | None, *, complete: bool) -> CheckFinding | None:
    """Return the finding as it counts here; None: it does not."""
    match finding.rule, finding.severity:
        case Rule.DUPLICATE_OBJECT, Severity.WARNING:
            if all(place.origin.startswith("/") for place in finding.related):
                return None  # it is in the manifest directory, and is the one to be changed
            return replace(finding, severity=Severity.ERROR)  # of a URL: a file beside it would not be used
        case Rule.MISSING_OBJECT, Severity.WARNING if node is None:
            return None  # the agent may have it
        case Rule.MISSING_OBJECT, Severity.ERROR if not complete:
            return replace(finding, severity=Severity.WARNING)
    return finding


def _texts(manifest: Manifest, data: bytes) -> list[InputObject]:
    found = {place.key: place for place in places(data, manifest.origin)}
    texts = {key: object_text(data, place, manifest.origin) for key, place in found.items()}
    given = []
    for item in manifest.objects:
        text = texts[item.key]
        again = parse(text.encode(), manifest.origin).objects
        if [each.digest for each in again] != [item.digest]:
            raise Conflict(f"{manifest.origin}: {item.key} cannot be cut out of its file; put it into one of its own")
        given.append(InputObject(item, text))
    return given
