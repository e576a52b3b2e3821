"""Reads the manifests that a command is given, and refuses them as a whole if anything in them is wrong."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from pykubelet.base.errors import Conflict, Invalid, NotFound, Permanent, Transient
from pykubelet.base.text import printable
from pykubelet.kubelet.desired.manifest import Manifest, ManifestObject, ObjectKey, Problem, parse
from pykubelet.kubelet.desired.manifest.edit import object_text, places
from pykubelet.kubelet.desired.manifest.manifest_types import MAX_BYTES
from pykubelet.kubelet.desired.manifest_file import read_manifest
from pykubelet.kubelet.desired.sources.disk import is_manifest_name

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


def read_objects(files: Sequence[Path]) -> list[Given]:
    """Return the objects of all files, ConfigMaps and Secrets before the pods that may use them.

    After problems, prints them all and exits with 1, so that a command acts on everything or on nothing. Permanent: a
    file cannot be read, or nothing is in it.
    """
    problems: list[Problem] = []
    given: dict[ObjectKey, Given] = {}
    origins: dict[ObjectKey, str] = {}
    for path, data in [pair for file in files for pair in _contents(file)]:
        manifest = parse(data, printable(path))
        problems += manifest.problems
        for item in manifest.objects:
            if item.key in origins:
                message = f"{item.key} is already given in {origins[item.key]}"
                problems.append(Problem(printable(path), message, "rename one of them"))
            origins[item.key] = printable(path)
        if not manifest.problems:
            given |= {each.item.key: each for each in _texts(manifest, data)}
    for problem in problems:
        click.echo(str(problem), err=True)
    if problems:
        click.echo(f"error: {len(problems)} problem(s); nothing was changed", err=True)
        raise click.exceptions.Exit(1)
    if not given:
        names = ", ".join(printable(str(file)) for file in files)
        raise Permanent(f"{names}: no object found; write a Pod, ConfigMap or Secret")
    return sorted(given.values(), key=lambda each: _ORDER.index(each.item.key.kind))


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
