"""One object in place of many equal ones, for values that are read together and kept for long."""

from collections.abc import Hashable
from typing import TypeVar

_T = TypeVar("_T", bound=Hashable)


class SharedValues:
    """Decoders make a new object for each text and struct; of equal ones that were passed here, only the first stays.

    Only for immutable values: the owners of equal ones get the same object. All of them are held as long as this is.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, Hashable] = {}

    def of(self, value: _T) -> _T:
        """Return the first value that was passed of those that equal this one and have its type."""
        known = self._known.setdefault(value, value)
        return known if type(known) is type(value) else value
