"""What a running server says of itself."""

from msgspec import Struct

from pykubelet.criserver.types import ProcessRef


class ServerNote(Struct, frozen=True):
    """One server: its process, and by what it differs from another."""

    process: ProcessRef
    version: str
    settings: str
    """A digest of its settings."""
    kept: bool
    """Started by an agent, not by a person: the agent may end it to start another."""
