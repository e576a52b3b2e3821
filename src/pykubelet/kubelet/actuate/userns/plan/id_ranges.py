"""Id ranges for pods: validation, the next free range, and the record's format. Pure."""

import re
from collections.abc import Container
from typing import Final

import msgspec
from msgspec import Struct

from pykubelet.base.errors import Invalid, Transient
from pykubelet.kubelet.actuate.cri_messages.config_types import IdMapping, UserNamespace
from pykubelet.models import codec

UNIT: Final = 65536
"""Ranges have this length or a multiple of it; images use ids below it."""
_ALL_IDS: Final = 1 << 32
_NO_ID: Final = _ALL_IDS - 1
"""Means "no id" to system calls: the kernel maps no range that has it."""
_ID: Final = re.compile(rb"[0-9]{1,10}")
_SHOWN: Final = 200
"""Bytes of an invalid output that its error shows."""


class IdPool(Struct, frozen=True):
    """Ids of the node that are reserved for pods."""

    first: int
    count: int
    per_pod: int = UNIT
    """Number of ids of each pod."""

    @property
    def ranges(self) -> int:
        """Number of pods that the ids suffice for."""
        return (min(self.first + self.count, _NO_ID) - self.first) // self.per_pod

    @classmethod
    def default(cls, per_pod: int = UNIT) -> "IdPool":
        """All ids but the lowest range, which has the node's own users."""
        return cls(per_pod, _ALL_IDS - per_pod, per_pod)

    def check(self, max_pods: int) -> None:
        """Raise Invalid if the ids are not whole ranges, or not enough for ``max_pods``."""
        if self.per_pod <= 0 or self.per_pod % UNIT:
            raise Invalid(f"userNamespaces.idsPerPod {self.per_pod} is not a multiple of {UNIT}")
        if self.first % self.per_pod or self.count % self.per_pod:
            raise Invalid(
                f"the ids of the user kubelet ({self.count} from {self.first}) are not whole ranges of "
                f"{self.per_pod}: change them in /etc/subuid and /etc/subgid"
            )
        if self.first < self.per_pod or self.first + self.count > _ALL_IDS:
            raise Invalid(f"the ids of the user kubelet must be between {self.per_pod} and {_ALL_IDS - 1}")
        if self.ranges < max_pods:
            raise Invalid(
                f"the ids of the user kubelet are enough for {self.ranges} pods, not for {max_pods}: give it more in "
                "/etc/subuid and /etc/subgid, or lower maxPods"
            )

    def owns(self, first: int) -> bool:
        """Whether ``first`` is the first id of a range of this pool."""
        index, rest = divmod(first - self.first, self.per_pod)
        return rest == 0 and 0 <= index < self.ranges

    def next_free(self, taken: Container[int], after: int | None = None) -> int:
        """Return the first id of the next free range after ``after``, cyclically. Raises Transient if all are taken.

        The cyclic order avoids using the ids of a removed pod again at once.
        """
        start = 0 if after is None else (after - self.first) // self.per_pod + 1
        for step in range(self.ranges):
            first = self.first + (start + step) % self.ranges * self.per_pod
            if first not in taken:
                return first
        raise Transient("could not find an empty slot to allocate a user namespace")


def parse_getsubids(uids: bytes, gids: bytes, per_pod: int) -> IdPool:
    """Parse the output of ``getsubids``. Raises Invalid unless there is one range, the same for uids and gids.

    The names in it are bytes of any encoding.
    """
    if uids != gids:
        raise Invalid("the user kubelet has other sub-ids in /etc/subuid than in /etc/subgid")
    lines = uids.strip(b"\n").split(b"\n")
    parts = lines[0].split()
    if len(lines) != 1 or len(parts) != 4 or not all(_ID.fullmatch(part) for part in parts[2:]):
        shown = uids.strip()[:_SHOWN].decode(errors="surrogateescape")
        raise Invalid(f"the user kubelet must have exactly one range of sub-ids, not {shown!r}")
    return IdPool(int(parts[2]), int(parts[3]), per_pod)


class _Mapping(msgspec.Struct, frozen=True, rename="camel"):
    host_id: int
    container_id: int
    length: int


class _File(msgspec.Struct, frozen=True, rename="camel"):
    """Content of the file ``userns`` of a pod, in the format of the Go kubelet."""

    uid_mappings: tuple[_Mapping, ...]
    gid_mappings: tuple[_Mapping, ...]


def namespace(first: int, length: int) -> UserNamespace:
    """User namespace in which the pod's id 0 is ``first`` on the node."""
    ids = (IdMapping(host_id=first, container_id=0, length=length),)
    return UserNamespace(ids, ids)


def to_file(first: int, length: int) -> bytes:
    """Content of the pod's file."""
    rows = (_Mapping(first, 0, length),)
    return codec.encode(_File(rows, rows))


def from_file(data: bytes, pool: IdPool) -> int:
    """First id in a pod's file. Raises Invalid for content that this agent cannot have written."""
    file = codec.decode(data, _File)
    if len(file.uid_mappings) != 1 or file.uid_mappings != file.gid_mappings:
        raise Invalid("invalid record: exactly one mapping, the same for users and groups, is required")
    (row,) = file.uid_mappings
    if row.container_id != 0:
        raise Invalid("invalid record: the mapping does not start at id 0 of the pod")
    if row.length != pool.per_pod or not pool.owns(row.host_id):
        raise Invalid(f"invalid record: {row.length} ids from {row.host_id} are not a range of this node's pool")
    return row.host_id
