"""A pod's own user namespace."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IdMap:
    """The ids of the node that a pod's ids, from 0 on, are mapped to: the first one, and how many."""

    uid: int
    gid: int
    uids: int
    gids: int


@dataclass(frozen=True, slots=True)
class UserNamespace:
    """A user namespace: the path where it is pinned, and its id map."""

    path: str
    ids: IdMap
