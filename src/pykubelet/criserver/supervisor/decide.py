"""What an agent does with the server that it finds. Pure."""

from enum import Enum, auto

from pykubelet.criserver.supervisor.types import ServerNote


class Step(Enum):
    """What to do."""

    START = auto()
    """None runs."""
    ADOPT = auto()
    """It is as wanted."""
    REPLACE = auto()
    """Another agent started it, with another version or other settings: end it in order, and start ours."""
    TOLERATE = auto()
    """It differs, but a person started it: use it, and say so."""


def step(found: ServerNote | None, alive: bool, wanted: ServerNote) -> Step:
    """``found`` is the note in the run directory, ``alive`` whether its process runs, ``wanted`` what to start."""
    if found is None or not alive:
        return Step.START
    if (found.version, found.settings) == (wanted.version, wanted.settings):
        return Step.ADOPT
    return Step.REPLACE if found.kept else Step.TOLERATE
