"""Sandboxes and containers without a record that recovery must not remove."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProtectedIds:
    """Ids of sandboxes and containers that have no record and are not removed.

    They exist only when records were damaged or lost: then a running container matters more than a clean machine.
    """

    ids: frozenset[str] = frozenset()
    everything: bool = False
    """The records are incomplete, so nothing without a record is removed."""

    def __contains__(self, identity: str) -> bool:
        return self.everything or identity in self.ids
