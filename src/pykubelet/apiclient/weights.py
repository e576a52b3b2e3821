"""Estimates the memory of objects before they are decoded, and chooses which of them a collection may hold. Pure.

The author of an object decides how much memory it takes: a pod of 1.5 MiB in etcd can have seven times as many bytes
in JSON, and one volume of 13 bytes takes 300 once it is decoded. What all objects of a collection take is bounded; the
largest of the namespace that takes most are left out, so that their authors keep the agent from no other object.
"""

import heapq
import re
from collections import defaultdict
from typing import Final

from msgspec import Raw

from pykubelet.base.files.decoding import decode_json
from pykubelet.models.scalars import KubeStruct

MAX_TOTAL: Final = 256 << 20
"""Maximum bytes of the objects of a collection, as estimated."""
MAX_ENDING: Final = 64 << 20
"""Further bytes for objects that are being deleted: the agent has to read them, or their deletion would not end."""
MAX_OBJECTS: Final = 100_000
"""Maximum objects of a collection; an object of three bytes takes 700 of memory, as one that cannot be read."""
MAX_OBJECT: Final = 256 << 20
"""Maximum bytes of the values and structures of one object: those of 1.5 MiB in etcd, its most, take less."""
MAX_OF_NAMESPACE: Final = 64 << 20
"""Maximum bytes of a namespace whose objects are held although all take more, so that no other one keeps them out."""
_ESCAPE: Final = 5
"""Bytes that an escape (``\\u003c``) takes in JSON besides those of its character."""
_VALUE: Final = 56
"""Bytes of a string or a number, which a comma separates from the next one."""
_STRUCTURE: Final = 256
"""Bytes of a structure, most of them for its empty fields."""
_ROUGH: Final = 64 << 10
"""Maximum bytes of an estimate that counts the commas and braces of strings, too, which is quicker."""
_STRINGS: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
"""Strings, also one without an end: a search from each of the quotes in it would take hours."""
_WIDTHS: Final = (
    (4, re.compile(rb"[\xf0-\xf4]|(?<!\\)(?:\\\\)*+\\u[dD][89abAB]")),
    (2, re.compile(rb"[\xc4-\xef]|(?<!\\)(?:\\\\)*+\\u(?!00)")),
)
"""Bytes that Python takes for each character of a text that has one of these, in UTF-8 or as an escape."""


class _Meta(KubeStruct, frozen=True):
    managed_fields: Raw = Raw()


class _ManagedFields(KubeStruct, frozen=True):
    """An object's managed fields, which are dropped."""

    metadata: _Meta = _Meta()


class Choice:
    """Chooses which objects to hold, in the order in which they arrive.

    The namespace that takes most is the first from which objects are left out, its largest first: one with many objects
    keeps out none of another, although each of its own is smaller. Of objects with equal weights the later ones are
    left out first. One object is held, whatever its weight.
    """

    def __init__(self, bound: int) -> None:
        """``bound`` is the bytes that all objects together may take."""
        self._bound = bound
        self._total = self._count = 0
        self._held: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        """A heap of the objects of each namespace."""
        self._totals: defaultdict[str, int] = defaultdict(int)
        self._most: list[tuple[int, str]] = []
        """A heap of the namespaces; entries with another total than the present one do not count."""

    def offer(self, position: int, weight: int, namespace: str) -> list[int]:
        """Hold the object at this position of the list; return the positions of those that are left out for it."""
        heapq.heappush(self._held[namespace], (-weight, -position))
        self._count += 1
        self._add(namespace, weight)
        left_out = []
        while self._total > self._bound and self._count > 1:
            most = self._taking_most()
            lightness, place = heapq.heappop(self._held[most])
            self._count -= 1
            self._add(most, lightness)
            left_out.append(-place)
        return left_out

    def _add(self, namespace: str, weight: int) -> None:
        self._total += weight
        self._totals[namespace] += weight
        heapq.heappush(self._most, (-self._totals[namespace], namespace))

    def _taking_most(self) -> str:
        while True:
            lightness, namespace = self._most[0]
            if -lightness == self._totals[namespace] and self._held[namespace]:
                return namespace
            heapq.heappop(self._most)


def weight(text: bytes) -> int:
    """Estimate the bytes that the object in this JSON text takes in memory, without its managed fields."""
    try:
        managed = bytes(decode_json(text, _ManagedFields).metadata.managed_fields)
    except (ValueError, RecursionError):
        managed = b""
    if managed:
        text = text.replace(managed, b"", 1)
    escapes = max(text.count(b"\\u") - text.count(b"\\\\u"), 0)
    characters = _width(text) * (len(text) - _ESCAPE * escapes)
    if (rough := characters + _structures(text)) <= _ROUGH:
        return rough
    return characters + _structures(_STRINGS.sub(b"", text))


def excessive(text: bytes) -> bool:
    """Return whether no object that etcd can hold has as many values and structures as this JSON text."""
    return _structures(text) > MAX_OBJECT and _structures(_STRINGS.sub(b"", text)) > MAX_OBJECT


def _width(text: bytes) -> int:
    """Return the bytes of a character, as Python holds a string with the rarest one of the text."""
    if text.isascii() and b"\\u" not in text:
        return 1
    return next((width for width, characters in _WIDTHS if characters.search(text)), 1)


def _structures(text: bytes) -> int:
    """Return the bytes of the values and structures besides their characters."""
    return _VALUE * text.count(b",") + _STRUCTURE * text.count(b"{")


def too_large(size: int) -> str:
    """Return why an object of this weight is left out, and a remedy."""
    return (
        f"it would take about {_mib(size)} MiB of memory, beyond the {_mib(MAX_TOTAL)} MiB of all objects: "
        "delete it or other large ones, or make them smaller"
    )


def _mib(size: int) -> int:
    return max(round(size / (1 << 20)), 1)
