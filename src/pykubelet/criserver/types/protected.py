"""What recovery finds on the machine, does not know, and must not touch."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProtectedIds:
    """Ids of sandboxes and containers that no record speaks of, and that are left as they are.

    Only damage to the records brings such a thing about, and what runs is worth more than tidiness.
    """

    ids: frozenset[str] = frozenset()
    everything: bool = False
    """The records are not known in full, so nothing that they do not speak of is touched."""

    def __contains__(self, identity: str) -> bool:
        return self.everything or identity in self.ids
