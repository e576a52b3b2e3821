"""A pod's own user namespace."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IdMap:
    """Which ids of the node stand for those of a pod, which begin at 0: the first one, and how many."""

    uid: int
    gid: int
    uids: int
    gids: int


@dataclass(frozen=True, slots=True)
class UserNamespace:
    """Where it is pinned, and its ids."""

    path: str
    ids: IdMap
