"""What a manifest gives: objects, and problems that say where, what and how to mend it."""

import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from pykubelet.base.text import printable
from pykubelet.models.core_v1 import ConfigMap, Pod, Secret

MAX_BYTES: Final = 10 * 1024 * 1024
"""Largest manifest read, from a file or a URL; the reference has the same cap."""

MAX_NODES: Final = 250_000
"""Most values in one manifest, aliases counted as often as they are used (against YAML bombs)."""

MAX_DEPTH: Final = 64
"""Deepest nesting; a pod needs less than 20."""

MAX_PROBLEMS: Final = 100
"""Problems reported per manifest; more would only hide the first ones."""

LocalObject: TypeAlias = Pod | ConfigMap | Secret
"""The kinds that a manifest may hold."""


@dataclass(frozen=True, slots=True)
class ObjectKey:
    """Names one object of the node's manifests, across versions of it."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken rule in one object: the field's path, what is wrong, what to do (may be empty)."""

    field: str
    message: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a manifest, or an object in it, cannot be used. ``str`` gives one line for people.

    Every text in it can be shown, logged and sent, whatever the manifest wrote into it.
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
            object.__setattr__(self, name, printable(getattr(self, name)))

    def __str__(self) -> str:
        place = self.origin
        if self.line:
            place += f":{self.line}:{self.column}" if self.column else f":{self.line}"
        subject = ": ".join(part for part in (self.object, self.field) if part)
        text = f"{place}: {subject}: {self.message}" if subject else f"{place}: {self.message}"
        return f"{text}; {self.remedy}" if self.remedy else text


@dataclass(frozen=True, slots=True)
class ManifestObject:
    """An object that passed all checks, defaults filled in; ``line`` is where it begins in the file.

    ``digest`` is a hash of its content as written: a static pod's uid comes from it.
    """

    key: ObjectKey
    value: LocalObject
    digest: str
    line: int = 0


@dataclass(frozen=True, slots=True)
class Manifest:
    """All of one file or URL: the good objects in their order, and what is wrong with the rest."""

    origin: str
    objects: tuple[ManifestObject, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def pods(self) -> tuple[Pod, ...]:
        return tuple(o.value for o in self.objects if isinstance(o.value, Pod))


def key_of(value: LocalObject) -> ObjectKey:
    """The object's key; objects without a namespace are in ``default``."""
    meta = value.metadata
    return ObjectKey(type(value).__name__, meta.namespace or "default", meta.name)


def fault_message(error: Exception) -> str:
    """What is told of a manifest that our own code fails on. Not the error's text, which may hold a secret."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(place.filename).name}:{place.lineno}"
    return f"cannot be checked: {type(error).__name__} in {where}; this is a bug of pykubelet, report it"


@dataclass(slots=True)
class Report:
    """Collects the problems of one manifest, up to a cap."""

    origin: str
    problems: list[Problem] = field(default_factory=list)

    @property
    def full(self) -> bool:
        return len(self.problems) >= MAX_PROBLEMS

    def add(self, problem: Problem) -> None:
        if len(self.problems) < MAX_PROBLEMS - 1:
            self.problems.append(problem)
        elif not self.full:
            self.problems.append(Problem(self.origin, "there are more problems than can be shown", "mend these first"))

    def __iter__(self) -> Iterator[Problem]:
        return iter(self.problems)
