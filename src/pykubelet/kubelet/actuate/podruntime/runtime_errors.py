"""Runtime errors in messages for users, and name conflicts in the runtime.

Names of sandboxes and containers end in the attempt number. A name is taken if an earlier agent was killed while it
created the object. Usually the next status of the pod shows the object, and the usual rules apply. If it does not show
up, the attempt number is raised, so that a name which the runtime has leaked does not block the pod for ever.
"""

import re

from pykubelet.base.errors import Conflict, PykubeletError
from pykubelet.base.text import has_in_order
from pykubelet.kubelet.actuate.cri.errors import CriError
from pykubelet.kubelet.types.ids import PodUID

_TRIES_PER_NAME = 3
"""Number of tries with the same name, during which a runtime cleans up an interrupted creation."""
_NAME, _RESERVED, _RESERVING = (re.compile(rf"\b{word}\b") for word in ("name", "reserved", "reserving"))


def error_message(error: Exception) -> str:
    """Error text for events and waiting messages; for an error of the runtime its own message, without the code."""
    return error.details if isinstance(error, CriError) else str(error)


def is_name_conflict(error: PykubeletError) -> bool:
    """Whether a creation failed because the name is taken. Runtimes have no code for it, so the message is matched."""
    text = str(error)
    reserved = has_in_order(text, _NAME, _RESERVED) or has_in_order(text, _RESERVING, _NAME)
    return isinstance(error, Conflict) or reserved


class NameConflicts:
    """Counts consecutive name conflicts by pod and container (``""`` is the sandbox)."""

    def __init__(self) -> None:
        self._counts: dict[tuple[PodUID, str], int] = {}

    def note(self, uid: PodUID, name: str) -> None:
        """Count a name conflict."""
        self._counts[uid, name] = self._counts.get((uid, name), 0) + 1

    def extra(self, uid: PodUID, name: str) -> int:
        """Number to add to the attempt number."""
        return max(0, self._counts.get((uid, name), 0) - _TRIES_PER_NAME + 1)

    def clear(self, uid: PodUID, name: str) -> None:
        """Reset the count after a successful creation."""
        self._counts.pop((uid, name), None)

    def forget(self, uid: PodUID) -> None:
        """Forget a pod that was removed."""
        for key in [key for key in self._counts if key[0] == uid]:
            del self._counts[key]
