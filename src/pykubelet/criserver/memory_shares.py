"""A fixed amount of memory that is divided among its users: the more there are, the smaller are their shares."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pykubelet.base.units import Bytes

_PART: Final = 8
"""A share is at most this part of what is free."""


class MemoryShares:
    """Reserves shares between two sizes. The smallest one is given even if no memory is free."""

    def __init__(self, *, total: int, smallest: int, largest: int) -> None:
        self._free = total
        self._smallest = smallest
        self._largest = largest

    @contextmanager
    def reserve(self) -> Iterator[Bytes]:
        """Reserve a share for the time of the block; yields its size."""
        size = Bytes(max(self._smallest, min(self._largest, self._free // _PART)))
        self._free -= size
        try:
            yield size
        finally:
            self._free += size
