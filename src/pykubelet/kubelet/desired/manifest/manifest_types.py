"""The content of a manifest: objects, and problems with position, cause and remedy."""

import traceback
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import force_setattr

from pykubelet.base.text import printable
from pykubelet.models.core_v1 import ConfigMap, Pod, Secret

MAX_BYTES: Final = 10 * 1024 * 1024
"""Maximum size of a manifest in bytes, from a file or a URL; the same as upstream."""

MAX_NODES: Final = 250_000
"""Maximum number of values in a manifest; aliases count as often as they are used (against YAML bombs)."""

MAX_DEPTH: Final = 64
"""Maximum depth of nesting; a pod needs less than 20."""

MAX_PROBLEMS: Final = 100
"""Maximum number of problems reported per manifest; more would hide the first ones."""

LocalObject: TypeAlias = Pod | ConfigMap | Secret
"""The kinds that a manifest may hold."""


class ObjectKey(Struct, frozen=True):
    """Key of an object of the node's manifests, the same for all its versions."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class Finding(Struct, frozen=True):
    """A violated rule in an object: the field's path, the message, the remedy (may be empty)."""

    field: str
    message: str
    remedy: str = ""


class Problem(Struct, frozen=True):
    """The reason why a manifest, or an object in it, cannot be used. ``str`` returns one line for display.

    All its texts are safe to show, log and send, whatever the manifest contains.
    """

    origin: str
    """The file's path or the URL."""
    message: str
    remedy: str = ""
    document: int = 0
    """Position among the documents of the file, from 1; 0: the file as a whole."""
    line: int = 0
    """Line in the file, from 1; 0: not known."""
    column: int = 0
    field: str = ""
    """Path of the field, such as ``spec.containers[0].image``."""
    object: str = ""
    """``KIND NAMESPACE/NAME`` where known."""

    def __post_init__(self) -> None:
        for name in ("origin", "message", "remedy", "field", "object"):
            force_setattr(self, name, printable(getattr(self, name)))

    def __str__(self) -> str:
        return self.described()

    def described(self, severity: str = "") -> str:
        """Return one line: place, the severity if one is given, object, field, message and remedy."""
        place = self.origin
        if self.line:
            place += f":{self.line}:{self.column}" if self.column else f":{self.line}"
        text = ": ".join(part for part in (place, severity, self.object, self.field, self.message) if part)
        return f"{text}; {self.remedy}" if self.remedy else text


class ManifestObject(Struct, frozen=True):
    """A valid object with defaults set; ``line`` is its first line in the file.

    ``digest`` is a hash of its content as written: a static pod's uid comes from it.
    """

    key: ObjectKey
    value: LocalObject
    digest: str
    line: int = 0
    positions: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Line and column of each field by its path; empty unless the parser was asked to keep them."""

    def position(self, path: str) -> tuple[int, int]:
        """Return line and column of a field, or of its nearest parent that the manifest contains."""
        return position_of(path, self.positions) or (self.line, 0)


class Manifest(Struct, frozen=True):
    """The content of a file or URL: the valid objects in their order, and the problems of the others."""

    origin: str
    objects: tuple[ManifestObject, ...] = ()
    problems: tuple[Problem, ...] = ()
    empty: bool = False
    """Whether it has no document at all, not even a list without items."""

    @property
    def pods(self) -> tuple[Pod, ...]:
        return tuple(o.value for o in self.objects if isinstance(o.value, Pod))


def key_of(value: LocalObject) -> ObjectKey:
    """Return the object's key; objects without a namespace are in ``default``."""
    meta = value.metadata
    return ObjectKey(type(value).__name__, meta.namespace or "default", meta.name)


def position_of(path: str, positions: Mapping[str, tuple[int, int]]) -> tuple[int, int] | None:
    """Return the position of a field, or of its nearest parent that has one; None: there is no such parent."""
    while path:
        if path in positions:
            return positions[path]
        cut = max(path.rfind("."), path.rfind("["))
        path = path[:cut] if cut > 0 else ""
    return None


def fault_message(error: Exception) -> str:
    """Return the message for a manifest on which the agent's own code fails, without the error's text, which may
    contain a secret."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(place.filename).name}:{place.lineno}"
    return f"cannot be checked: {type(error).__name__} in {where}; this is a bug of pykubelet, report it"


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return the problems of one manifest in the order of their places; first those of the whole file."""
    return tuple(sorted(problems, key=lambda problem: (problem.line, problem.column)))


class Report(Struct):
    """The problems of one manifest, up to a maximum number."""

    origin: str
    problems: list[Problem] = field(default_factory=list)
    full: bool = False
    """There are more."""

    def add(self, problem: Problem) -> None:
        if len(self.problems) < MAX_PROBLEMS - 1:
            self.problems.append(problem)
        else:
            self.full = True

    def ordered(self) -> tuple[Problem, ...]:
        """Return the problems in the order of their places; if there are more, a last one says so."""
        found = in_order(self.problems)
        if not self.full:
            return found
        message, last = "there are more problems than can be shown", found[-1]
        return (*found, Problem(self.origin, message, "fix these first", line=last.line, column=last.column))

    def __iter__(self) -> Iterator[Problem]:
        return iter(self.problems)
