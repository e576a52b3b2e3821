"""Which ids pods may have, and which range is the next free one. Pure."""

from collections.abc import Container
from dataclasses import dataclass
from typing import Final

import msgspec

from pykubelet.base.errors import Invalid, Transient
from pykubelet.kubelet.actuate.criconfig.types import IdMapping, UserNamespace
from pykubelet.models import codec

UNIT: Final = 65536
"""Ranges are of this length, or of a multiple of it: the ids that images use are below."""
_ALL_IDS: Final = 1 << 32


@dataclass(frozen=True, slots=True)
class IdPool:
    """The node's ids that are set aside for pods."""

    first: int
    count: int
    per_pod: int = UNIT
    """Ids that each pod gets."""

    @property
    def ranges(self) -> int:
        """How many pods there are ids for."""
        return self.count // self.per_pod

    @classmethod
    def default(cls, per_pod: int = UNIT) -> "IdPool":
        """Everything but the lowest range, which holds the node's own users."""
        return cls(per_pod, _ALL_IDS - per_pod, per_pod)

    def check(self, max_pods: int) -> None:
        """Raises Invalid for ids that cannot be dealt out, or that are too few for that many pods."""
        if self.per_pod <= 0 or self.per_pod % UNIT:
            raise Invalid(f"userNamespaces.idsPerPod {self.per_pod} is not a multiple of {UNIT}")
        if self.first % self.per_pod or self.count % self.per_pod:
            raise Invalid(
                f"the ids of the user kubelet ({self.count} from {self.first}) are not made of whole ranges of "
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
        """Whether a range of this pool begins there."""
        return self.first <= first < self.first + self.count and (first - self.first) % self.per_pod == 0

    def next_free(self, taken: Container[int], after: int | None = None) -> int:
        """The first id of a free range, the ones after ``after`` first. Raises Transient when there is none.

        Going round keeps ids of pods that have just gone from being used again at once.
        """
        start = 0 if after is None else (after - self.first) // self.per_pod + 1
        for step in range(self.ranges):
            first = self.first + (start + step) % self.ranges * self.per_pod
            if first not in taken:
                return first
        raise Transient("could not find an empty slot to allocate a user namespace")


def parse_getsubids(uids: str, gids: str, per_pod: int) -> IdPool:
    """The ids which ``getsubids`` says that the user has. Raises Invalid for what pods cannot be given from."""
    if uids != gids:
        raise Invalid("the user kubelet has other sub-ids in /etc/subuid than in /etc/subgid")
    lines = uids.strip("\n").split("\n")
    parts = lines[0].split()
    if len(lines) != 1 or len(parts) != 4 or not (parts[2].isdecimal() and parts[3].isdecimal()):
        raise Invalid(f"the user kubelet must have exactly one range of sub-ids, not {uids.strip()!r}")
    return IdPool(int(parts[2]), int(parts[3]), per_pod)


class _Mapping(msgspec.Struct, frozen=True, rename="camel"):
    host_id: int
    container_id: int
    length: int


class _File(msgspec.Struct, frozen=True, rename="camel"):
    """The file ``userns`` of a pod; the same as the reference's."""

    uid_mappings: tuple[_Mapping, ...]
    gid_mappings: tuple[_Mapping, ...]


def namespace(first: int, length: int) -> UserNamespace:
    """The namespace in which the pod's 0 is that id of the node."""
    ids = (IdMapping(host_id=first, container_id=0, length=length),)
    return UserNamespace(ids, ids)


def to_file(first: int, length: int) -> bytes:
    """The content of the pod's file."""
    rows = (_Mapping(first, 0, length),)
    return codec.encode(_File(rows, rows))


def from_file(data: bytes, pool: IdPool) -> int:
    """The first id that a pod's file names. Raises Invalid for what this agent cannot have written."""
    file = codec.decode(data, _File)
    if len(file.uid_mappings) != 1 or file.uid_mappings != file.gid_mappings:
        raise Invalid("there has to be one mapping, the same for users and groups")
    (row,) = file.uid_mappings
    if row.container_id != 0:
        raise Invalid("the id 0 of the pod has to be mapped")
    if row.length != pool.per_pod or not pool.owns(row.host_id):
        raise Invalid(f"{row.length} ids from {row.host_id} are none of the ranges that pods are given here")
    return row.host_id
