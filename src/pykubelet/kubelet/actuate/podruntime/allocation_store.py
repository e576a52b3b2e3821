"""The record of what pods were allotted and what of it has not been applied yet; it survives the agent.

One small file in the pod's directory, so that it goes with the pod. It says what was allotted, and for containers
that run with another size than that, which. A container that is not named runs as allotted: so nothing has to be
written when containers start, and whoever is interrupted between two steps of a resize finds here which of them are
done.

Static pods have no record: a changed manifest makes a new pod of them.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import msgspec

from pykubelet.base import blocking
from pykubelet.base.atomic import write_atomic
from pykubelet.base.errors import Transient
from pykubelet.base.guard import Guard
from pykubelet.base.own_files import make_place, read_own
from pykubelet.base.units import Bytes, MilliCPU
from pykubelet.kubelet.actuate.podruntime.ports import PodFiles
from pykubelet.kubelet.actuate.records import read_records
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.resize import (
    Allocation,
    ResizeProgress,
    allocation_of,
    container_size,
    same_resources,
    with_allocation,
)
from pykubelet.kubelet.types.size import Size
from pykubelet.kubelet.types.updates import is_static
from pykubelet.models import codec
from pykubelet.models.core_v1 import Pod, ResourceRequirements

_MAX_FILE: Final = 1 << 20


class _Row(msgspec.Struct, frozen=True):
    """A size on disk."""

    cpu_request: int
    cpu_limit: int
    memory_request: int
    memory_limit: int


class _File(msgspec.Struct, frozen=True):
    """The file's content."""

    containers: dict[str, ResourceRequirements]
    pod: ResourceRequirements | None = None
    generation: int | None = None
    pending: bool = False
    applied: dict[str, _Row] = {}


@dataclass(frozen=True, slots=True)
class _Record:
    allocation: Allocation
    pending: bool = False
    """The pod's cgroup or one of its containers may not follow the allocation yet."""
    applied: Mapping[str, Size] = field(default_factory=dict)
    """Sizes of containers that run with another than allotted."""
    error: str = ""
    saved: bool = False


class AllocationStore:
    """Implements ``types.resize.Allocations``. Changes are in memory at once; `save` brings them to disk."""

    def __init__(self, files: PodFiles) -> None:
        self._files = files
        self._guard = Guard("records.resources", time.monotonic)
        self._records: dict[PodUID, _Record] = {}

    async def load(self, uids: Iterable[PodUID]) -> None:
        """Read what an earlier agent has noted about these pods. What cannot be read is as good as not there."""
        wanted = [uid for uid in uids if uid not in self._records]
        self._records |= await read_records(self._guard, wanted, self._read)

    def get(self, uid: PodUID) -> Allocation | None:
        """What the pod was allotted; None if nothing is on record."""
        record = self._records.get(uid)
        return record.allocation if record is not None else None

    def set(self, pod: Pod) -> None:
        """Allot what this pod's spec says. What runs keeps its size until it is changed."""
        if is_static(pod):
            return
        uid, wanted = ref_of(pod).uid, allocation_of(pod)
        before = self._records.get(uid)
        if before is None:
            self._records[uid] = _Record(wanted)
            return
        now = before.allocation
        if not _differ(now, wanted):
            return
        old = with_allocation(pod, now)
        sizes = {c.name: container_size(old, c) for c in (*old.spec.init_containers, *old.spec.containers)}
        self._records[uid] = _Record(wanted, pending=True, applied={**sizes, **before.applied})

    def progress(self, uid: PodUID) -> ResizeProgress | None:
        """The resize that has not been wholly applied, if there is one."""
        record = self._records.get(uid)
        if record is None or not record.pending:
            return None
        return ResizeProgress(record.allocation.generation, record.error)

    def applied(self, uid: PodUID) -> Mapping[str, Size]:
        """Sizes of containers that may run with another than allotted."""
        record = self._records.get(uid)
        return record.applied if record is not None else {}

    def note_applied(self, uid: PodUID, container: str, size: Size) -> None:
        """A container runs, or is about to, with this size; of interest only while a resize is under way."""
        record = self._records.get(uid)
        if record is not None and record.pending and record.applied.get(container) != size:
            self._records[uid] = replace(record, applied={**record.applied, container: size}, saved=False)

    def note_error(self, uid: PodUID, message: str) -> bool:
        """The resize could not be applied, for this reason; whether that is news."""
        record = self._records.get(uid)
        if record is None or record.error == message:
            return False
        self._records[uid] = replace(record, error=message)
        return True

    def complete(self, uid: PodUID, allocation: Allocation) -> bool:
        """All that runs has the size of this allocation; False if the pod has been allotted another in the meantime."""
        record = self._records.get(uid)
        if record is None or record.allocation is not allocation:
            return False
        self._records[uid] = _Record(allocation)
        return True

    async def save(self, uid: PodUID) -> None:
        """Bring the pod's record to disk, if it has changed. Raises Transient."""
        record = self._records.get(uid)
        if record is None or record.saved:
            return
        try:
            await blocking.call_to_end(f"pod/{uid}", self._write, uid, record)
        except OSError as error:
            raise Transient(f"cannot note what pod {uid} was allotted: {error}") from error
        if self._records.get(uid) is record:
            self._records[uid] = replace(record, saved=True)

    def forget(self, uid: PodUID) -> None:
        """The pod is gone, and its directory with it."""
        self._records.pop(uid, None)

    def _write(self, uid: PodUID, record: _Record) -> None:
        path = self._files.resources(uid)
        path.parent.mkdir(mode=0o750, exist_ok=True)
        given = record.allocation
        rows = {name: _row(size) for name, size in record.applied.items()}
        file = _File(dict(given.containers), given.pod, given.generation, record.pending, rows)
        make_place(path)
        write_atomic(path, codec.encode(file))

    def _read(self, uid: PodUID) -> _Record | None:
        try:
            file = read_own(self._files.resources(uid), _MAX_FILE, partial(codec.decode, target=_File))
        except FileNotFoundError:
            return None
        sizes = {name: _size(row) for name, row in file.applied.items()}
        return _Record(Allocation(file.containers, file.pod, file.generation), file.pending, sizes, saved=True)


def _differ(a: Allocation, b: Allocation) -> bool:
    if a.containers.keys() != b.containers.keys() or not same_resources(a.pod, b.pod):
        return True
    return any(not same_resources(given, b.containers[name]) for name, given in a.containers.items())


def _row(size: Size) -> _Row:
    return _Row(size.cpu_request, size.cpu_limit, size.memory_request, size.memory_limit)


def _size(row: _Row) -> Size:
    return Size(MilliCPU(row.cpu_request), MilliCPU(row.cpu_limit), Bytes(row.memory_request), Bytes(row.memory_limit))
