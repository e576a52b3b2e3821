"""Identifiers of sandboxes and containers, and those that recovery must not remove."""

import secrets
from typing import NewType

from msgspec import Struct

SandboxID = NewType("SandboxID", str)
ContainerID = NewType("ContainerID", str)

MAX_NETWORKS = 16
"""Networks that a sandbox can be attached to."""


def new_id() -> str:
    """Create an id: 64 random hexadecimal digits, as with every CRI runtime."""
    return secrets.token_hex(32)


class ProtectedIds(Struct, frozen=True):
    """Ids of sandboxes and containers that have no record and are not removed.

    They exist only when records were damaged or lost: then a running container matters more than a clean machine.
    """

    ids: frozenset[str] = frozenset()
    everything: bool = False
    """The records are incomplete, so nothing without a record is removed."""

    def __contains__(self, identity: str) -> bool:
        return self.everything or identity in self.ids
