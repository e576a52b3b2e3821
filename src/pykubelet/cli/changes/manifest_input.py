"""Reads the manifests that a command is given, and refuses them as a whole if anything in them is wrong."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import click

from pykubelet.base.errors import Conflict, Invalid, NotFound, Permanent, Transient
from pykubelet.base.text import printable
from pykubelet.cli.changes.check_sources import machine_capacity
from pykubelet.kubelet.desired.check import CheckFinding, CheckSource, Rule, Severity, check
from pykubelet.kubelet.desired.manifest import Manifest, ManifestObject, ObjectKey, parse
from pykubelet.kubelet.desired.manifest.edit import object_text, places
from pykubelet.kubelet.desired.manifest.manifest_types import MAX_BYTES
from pykubelet.kubelet.desired.manifest_file import read_manifest
from pykubelet.kubelet.desired.sources.disk import is_manifest_name
from pykubelet.kubelet.types.node_view import NodeView

STDIN: Final = "-"
_ORDER: Final = ("ConfigMap", "Secret", "Pod")


@dataclass(frozen=True, slots=True)
class Given:
    """A valid object of the input."""

    item: ManifestObject
    text: str
    """Its document as written."""

    @property
    def label(self) -> str:
        """Its name for people, as kubectl prints it."""
        return label_of(self.item.key)


def label_of(key: ObjectKey) -> str:
    """Return ``pod/demo`` for a key."""
    return f"{key.kind.lower()}/{key.name}"


def read_objects(files: Sequence[Path], node: NodeView | None = None, *, complete: bool = True) -> list[Given]:
    """Check all files as ``pykubelet check`` does; return their objects, ConfigMaps and Secrets before the pods.

    ``node`` is the node that is to run them; with ``complete`` false, ConfigMaps and Secrets that a pod uses may follow
    later. After errors, prints all findings and exits with 1, so that a command acts on everything or on nothing.
    Permanent: a file cannot be read, or nothing is in it.
    """
    read = [(parse(data, printable(path)), data) for file in files for path, data in _contents(file)]
    findings = check([CheckSource(manifest) for manifest, _ in read], node, capacity=machine_capacity())
    shown = [each for each in (_weighed(each, node, complete=complete) for each in findings) if each is not None]
    for finding in shown:
        click.echo(str(finding), err=True)
    errors = sum(each.severity is Severity.ERROR for each in shown)
    if errors:
        click.echo(f"error: {errors} problem(s); nothing was changed", err=True)
        raise click.exceptions.Exit(1)
    given = [each for manifest, data in read for each in _texts(manifest, data)]
    if not given:
        names = ", ".join(printable(str(file)) for file in files)
        raise Permanent(f"{names}: no object found; write a Pod, ConfigMap or Secret")
    return sorted(given, key=lambda each: _ORDER.index(each.item.key.kind))


def _weighed(finding: CheckFinding, node: NodeView | None, *, complete: bool) -> CheckFinding | None:
    """Return the finding as it counts here; None: it does not."""
    match finding.rule, finding.severity:
        case Rule.DUPLICATE_OBJECT, Severity.WARNING:
            return None  # the agent has the object, which is the one to be changed
        case Rule.MISSING_OBJECT, Severity.WARNING if node is None:
            return None  # the agent may have it
        case Rule.MISSING_OBJECT, Severity.ERROR if not complete:
            return replace(finding, severity=Severity.WARNING)
    return finding


def read_keys(files: Sequence[Path]) -> list[ObjectKey]:
    """Return the objects that the files name; they need not be valid. Invalid: a file's text cannot be read."""
    keys = [place.key for file in files for path, data in _contents(file) for place in places(data, printable(path))]
    return [key for key in dict.fromkeys(keys) if key.kind in _ORDER]


def _texts(manifest: Manifest, data: bytes) -> list[Given]:
    found = {place.key: place for place in places(data, manifest.origin)}
    texts = {key: object_text(data, place, manifest.origin) for key, place in found.items()}
    given = []
    for item in manifest.objects:
        text = texts[item.key]
        again = parse(text.encode(), manifest.origin).objects
        if [each.digest for each in again] != [item.digest]:
            raise Conflict(f"{manifest.origin}: {item.key} cannot be cut out of its file; put it into one of its own")
        given.append(Given(item, text))
    return given


def _contents(file: Path) -> list[tuple[str, bytes]]:
    if str(file) == STDIN:
        return [("<stdin>", sys.stdin.buffer.read(MAX_BYTES + 1))]
    paths = [file]
    try:
        if file.is_dir():
            paths = sorted(each for each in file.iterdir() if is_manifest_name(each.name) and not each.is_dir())
        return [(str(path), read_manifest(str(path))) for path in paths]
    except OSError as error:
        raise Permanent(f"{printable(str(file))}: cannot be read: {error.strerror}") from error
    except (NotFound, Invalid, Transient) as error:
        raise Permanent(f"{printable(str(file))}: {error}") from error
