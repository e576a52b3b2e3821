"""Identifiers of sandboxes and containers, and those that recovery must not remove."""

import secrets
from collections.abc import Mapping
from typing import NewType, TypeVar

from msgspec import Struct

SandboxID = NewType("SandboxID", str)
ContainerID = NewType("ContainerID", str)
_Id = TypeVar("_Id", SandboxID, ContainerID)
_Value = TypeVar("_Value")

MAX_NETWORKS = 16
"""Networks that a sandbox can be attached to."""


def new_id() -> str:
    """Create an id: 64 random hexadecimal digits, as with every CRI runtime."""
    return secrets.token_hex(32)


def find_by_id(known: Mapping[_Id, _Value], identity: _Id) -> _Value | None:
    """Return the value with this id, else the only one whose id begins with it; None: no value, or several."""
    found = known.get(identity)
    if found is None and identity:
        matches = [value for key, value in known.items() if key.startswith(identity)]
        found = matches[0] if len(matches) == 1 else None
    return found


class ProtectedIds(Struct, frozen=True):
    """Ids of sandboxes and containers that have no record and are not removed.

    They exist only when records were damaged or lost: then a running container matters more than a clean machine.
    """

    ids: frozenset[str] = frozenset()
    everything: bool = False
    """The records are incomplete, so nothing without a record is removed."""

    def __contains__(self, identity: str) -> bool:
        return self.everything or identity in self.ids
