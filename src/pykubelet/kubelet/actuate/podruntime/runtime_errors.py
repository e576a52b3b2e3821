"""Errors of the runtime as users see them, and what to do when it says that a name is taken.

Names of sandboxes and containers end in the attempt's number. A name is taken when an earlier agent was killed in
the midst of a creation. Mostly the next look at the runtime shows what holds it; then the usual rules apply. If
nothing shows up, the number is raised, so that a name that the runtime has lost track of stops nobody for ever.
"""

import re

from pykubelet.base.errors import Conflict, PykubeletError
from pykubelet.kubelet.actuate.cri.errors import CriError
from pykubelet.kubelet.types.ids import PodUID

_PATIENCE = 3
"""So often the same name is tried; within that time a runtime undoes what was left half done."""
_RESERVED = re.compile(r"\bname\b.*\breserved\b|\breserving\b.*\bname\b", re.DOTALL)


def error_message(error: Exception) -> str:
    """What went wrong, for events and waiting messages: the runtime's own words where it was the runtime."""
    return error.details if isinstance(error, CriError) else str(error)


def is_name_conflict(error: PykubeletError) -> bool:
    """Whether a creation failed since its name is taken. Runtimes have no code for that, but they say it."""
    return isinstance(error, Conflict) or _RESERVED.search(str(error)) is not None


class NameConflicts:
    """Counts conflicts in a row, by pod and container (``""`` is the sandbox)."""

    def __init__(self) -> None:
        self._counts: dict[tuple[PodUID, str], int] = {}

    def note(self, uid: PodUID, name: str) -> None:
        """One more."""
        self._counts[uid, name] = self._counts.get((uid, name), 0) + 1

    def extra(self, uid: PodUID, name: str) -> int:
        """By how much to raise the attempt's number."""
        return max(0, self._counts.get((uid, name), 0) - _PATIENCE + 1)

    def clear(self, uid: PodUID, name: str) -> None:
        """A creation went well."""
        self._counts.pop((uid, name), None)

    def forget(self, uid: PodUID) -> None:
        """The pod is gone."""
        for key in [key for key in self._counts if key[0] == uid]:
            del self._counts[key]
