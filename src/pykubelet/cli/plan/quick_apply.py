"""Reads the common command lines of ``pykubelet apply`` without the library for command lines.

That library takes longer to import than the rest of the command takes. Whatever is not read here, help and errors
included, is left to it, so both must take the same words to mean the same. Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

_VALUES: Final = {
    "-f": "files",
    "--filename": "files",
    "-n": "namespace",
    "--namespace": "namespace",
    "--timeout": "timeout",
}
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}
DEFAULT_SECONDS: Final = 300.0
_MOST_DIGITS: Final = 5
"""Digits of a time limit that is read here, so that it is one for the library, too."""


class QuickApplyArguments(NamedTuple):
    """Arguments of a command line of ``pykubelet apply``."""

    socket: str
    """The agent's socket; empty: the default one."""
    files: tuple[str, ...]
    namespace: str
    wait: bool
    seconds: float | None
    """Limit of the wait; None: no limit."""


def quick_apply(words: Sequence[str], environment: Mapping[str, str]) -> QuickApplyArguments | None:
    """Return what the words after the program's name ask for; None: the library has to read them."""
    if any(name.startswith(("PYKUBELET_APPLY_", "_PYKUBELET_")) for name in environment):
        return None
    left = list(words)
    socket = environment.get("PYKUBELET_SOCKET", "")
    if len(left) > 1 and left[0] == "--socket":
        socket, left = left[1], left[2:]
    if not left or left[0] != "apply":
        return None
    values: dict[str, list[str]] = {"files": [], "namespace": [], "timeout": []}
    wait = False
    rest = iter(left[1:])
    for word in rest:
        name, equals, value = word.partition("=")
        if word == "--wait":
            wait = True
        elif name in _VALUES and (not equals or name.startswith("--")):
            found = value if equals else next(rest, None)
            if found is None or (not equals and found.startswith("-") and found != "-"):
                return None
            values[_VALUES[name]].append(found)
        else:
            return None
    seconds = _seconds(values["timeout"][-1]) if values["timeout"] else DEFAULT_SECONDS
    if seconds is None or not values["files"] or not all(values["files"]):
        return None
    return QuickApplyArguments(
        socket=socket,
        files=tuple(values["files"]),
        namespace=values["namespace"][-1] if values["namespace"] else "",
        wait=wait,
        seconds=seconds or None,
    )


def _seconds(text: str) -> float | None:
    """Return a time limit; None: it is not a plain one."""
    number, unit = (text, "s") if text[-1:].isdigit() else (text[:-1], text[-1:])
    if not (number.isascii() and number.isdecimal()) or unit not in _SECONDS or len(number) > _MOST_DIGITS:
        return None
    return int(number) * _SECONDS[unit]
