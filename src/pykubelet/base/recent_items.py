"""A bounded table of what is made at its first use, such as the records of recent pods."""

from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class RecentItems(OrderedDict[_Key, _Value]):
    """Values by key. Beyond ``most`` of them, the one that was used the longest time ago is dropped."""

    def __init__(self, make: Callable[[], _Value], *, most: int) -> None:
        super().__init__()
        self._make = make
        self._most = most

    def use(self, key: _Key) -> _Value:
        """Return the value of a key, which is made if it is new, and is the last to be dropped now."""
        value = self.get(key)
        if value is None:
            value = self[key] = self._make()
            if len(self) > self._most:
                self.popitem(last=False)
        else:
            self.move_to_end(key)
        return value
