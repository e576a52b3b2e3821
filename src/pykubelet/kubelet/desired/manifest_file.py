"""Reads manifest files safely, and single ones for ``pykubelet check``."""

import os
import stat

from pykubelet.base.errors import Invalid, NotFound, Transient
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

    Raises NotFound, Invalid (not a regular file, too large) or Transient (the disk or permissions).
    A pipe or device is never read: opening it with O_NONBLOCK does not wait, and its kind is looked at first.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except FileNotFoundError as error:
        raise NotFound("the file does not exist") from error
    except ValueError as error:
        raise Invalid("cannot be read: the path contains a NUL character") from error
    except OSError as error:
        raise Transient(f"cannot be read: {error.strerror}") from error
    try:
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode):
            what = "a directory" if stat.S_ISDIR(mode) else "a pipe, socket or device"
            raise Invalid(f"is {what}, not a regular file")
        with os.fdopen(fd, "rb", closefd=False) as file:
            return file.read(MAX_BYTES + 1)  # one byte more, so that the parser detects a file above the limit
    except OSError as error:
        raise Transient(f"cannot be read: {error.strerror}") from error
    finally:
        os.close(fd)
