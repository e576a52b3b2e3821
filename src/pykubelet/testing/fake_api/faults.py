"""Faults that tests inject into the fake API server."""

import re
from dataclasses import dataclass, field


@dataclass
class Fault:
    """A fault of the next ``times`` requests that match; ``match`` is searched in ``METHOD PATH?QUERY``."""

    match: str
    status: int = 0
    """HTTP status of the response; 0: the usual response, except for the fields below."""
    message: str = "made to fail"
    """Message of the Status object."""
    retry_after: int | None = None
    delay: float = 0.0
    """Seconds before the response."""
    drop: bool = False
    """Close the connection without a response."""
    truncate: bool = False
    """Break a watch off in the middle of an event."""
    corrupt: bool = False
    """Send objects that no client can decode: one among those of a list, or nothing else in a watch."""
    answer: bytes | None = None
    """Body of the response, with status 200, instead of the usual one."""
    times: int = 1
    _pattern: "re.Pattern[str]" = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._pattern = re.compile(self.match)

    def applies(self, request: str) -> bool:
        """Whether the fault applies to this request; counts the request if so."""
        if self.times <= 0 or not self._pattern.search(request):
            return False
        self.times -= 1
        return True
