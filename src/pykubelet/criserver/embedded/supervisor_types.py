"""The note that a running server leaves in its run directory."""

from msgspec import Struct

from pykubelet.criserver.types import ProcessRef


class ServerNote(Struct, frozen=True):
    """A running server: its process, version and settings."""

    process: ProcessRef
    version: str
    settings: str
    """SHA-256 digest of its settings."""
    kept: bool
    """Started by an agent, not by a person: the agent may end it to start another."""
