"""Reads manifest files safely, and single ones for ``pykubelet check``."""

import os

from pykubelet.base.errors import Invalid, NotFound, Transient
from pykubelet.base.files.regular_file import read_regular
from pykubelet.base.text import printable
from pykubelet.kubelet.desired.manifest.manifest_types import MAX_BYTES, Manifest, Problem
from pykubelet.kubelet.desired.manifest.parse import parse


def check_file(path: str | os.PathLike[str]) -> Manifest:
    """Read a manifest file with the positions of its fields; a failure to read it is a problem too. Never raises.

    Its origin is for people: a name that is not UTF-8 is in it with backslash escapes.
    """
    name = printable(os.fspath(path))
    try:
        data = read_manifest(os.fspath(path))
    except (NotFound, Invalid, Transient) as error:
        return Manifest(name, problems=(Problem(name, str(error)),))
    return check_text(data, name)


def check_text(data: bytes, name: str) -> Manifest:
    """Read a manifest's text with the positions of its fields; a text without objects has a problem. Never raises."""
    manifest = parse(data, name, positions=True)
    if manifest.problems or manifest.objects:
        return manifest
    return Manifest(name, problems=(Problem(name, "holds no object", "write a Pod, ConfigMap or Secret into it"),))


def read_manifest(path: str) -> bytes:
    """Read the bytes of a manifest file; symbolic links are followed, since ConfigMap volumes use them.

    Raises NotFound, Invalid (not a regular file) or Transient (the disk or permissions). Of a file above the limit one
    byte more is read, so that the parser detects it.
    """
    return read_regular(path, MAX_BYTES + 1)
