"""Checks a single manifest file, as for ``pykubelet check FILE``, and reads manifest files safely."""

import os
import stat
from dataclasses import dataclass

from pykubelet.base.errors import Invalid, NotFound, Transient
from pykubelet.base.text import printable
from pykubelet.kubelet.desired.manifest.manifest_types import MAX_BYTES, Manifest, Problem
from pykubelet.kubelet.desired.manifest.parse import parse


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The objects of a file and its problems; ``ok`` if it has no problem.

    ``path`` is for people: a name that is not UTF-8 is in it with backslash escapes.
    """

    path: str
    manifest: Manifest
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        return not self.problems


def check_file(path: str | os.PathLike[str]) -> CheckResult:
    """Read and check a manifest file; a failure to read it is a problem too. Never raises."""
    name = printable(os.fspath(path))
    try:
        manifest = parse(read_manifest(os.fspath(path)), name)
    except (NotFound, Invalid, Transient) as error:
        manifest = Manifest(name, problems=(Problem(name, str(error)),))
    problems = manifest.problems
    if not problems and not manifest.objects:
        problems = (Problem(name, "holds no object", "write a Pod, ConfigMap or Secret into it"),)
    return CheckResult(name, manifest, problems)


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
