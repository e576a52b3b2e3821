"""What the fake API server does wrong when it is told to."""

import re
from dataclasses import dataclass, field


@dataclass
class Fault:
    """The next ``times`` requests that match are treated so; ``match`` is searched in ``METHOD PATH?QUERY``."""

    match: str
    status: int = 0
    """Answer with this status; 0: answer as usual, but see below."""
    message: str = "made to fail"
    """Of that status."""
    retry_after: int | None = None
    delay: float = 0.0
    """Seconds before the answer."""
    drop: bool = False
    """Close the connection without an answer."""
    truncate: bool = False
    """Break a watch off in the middle of an event."""
    corrupt: bool = False
    """Put an object into the list or watch that no client can decode: one into a list, nothing else into a watch."""
    times: int = 1
    _pattern: "re.Pattern[str]" = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._pattern = re.compile(self.match)

    def applies(self, request: str) -> bool:
        """Whether this request is hit; counts."""
        if self.times <= 0 or not self._pattern.search(request):
            return False
        self.times -= 1
        return True
