"""Decides what an agent does with the runtime server that it finds. Pure."""

from enum import Enum, auto

from pykubelet.criserver.embedded.supervisor_types import ServerNote


class Step(Enum):
    """The step to take with the server that was found."""

    START = auto()
    """No server is running: start one."""
    ADOPT = auto()
    """It has the wanted version and settings: use it."""
    REPLACE = auto()
    """An agent started it with another version or settings: stop it gracefully and start another."""
    TOLERATE = auto()
    """A person started it with another version or settings: use it, and log a warning."""


def step(found: ServerNote | None, alive: bool, wanted: ServerNote) -> Step:
    """Decide the step. ``found``: the note in the run directory; ``alive``: its process runs; ``wanted``: to start."""
    if found is None or not alive:
        return Step.START
    if (found.version, found.settings) == (wanted.version, wanted.settings):
        return Step.ADOPT
    return Step.REPLACE if found.kept else Step.TOLERATE
