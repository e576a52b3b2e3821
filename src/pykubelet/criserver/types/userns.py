"""A pod's own user namespace."""

from msgspec import Struct


class IdMap(Struct, frozen=True):
    """The ids of the node that a pod's ids, from 0 on, are mapped to: the first one, and how many."""

    uid: int
    gid: int
    uids: int
    gids: int


class UserNamespace(Struct, frozen=True):
    """A user namespace: the path where it is pinned, and its id map."""

    path: str
    ids: IdMap
