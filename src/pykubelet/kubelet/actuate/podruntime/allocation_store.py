"""Allocation store: the resources allocated to each pod and how far a resize has been applied; survives a restart.

There is one small file in each pod's directory, which is removed with the pod. It has the allocated resources, and the
sizes of containers that run with another size than the allocated one. A container without an entry runs with its
allocated size: so nothing has to be written when containers start, and a resize that was interrupted between two steps
continues with the steps that are left.

Static pods have no record: a changed manifest creates a new pod.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.errors import Transient
from pykubelet.base.files.state_files import read_state_file, write_state_file
from pykubelet.base.units import MIB, Bytes, MilliCPU
from pykubelet.kubelet.actuate.podruntime.podruntime_interfaces import PodFiles
from pykubelet.kubelet.actuate.records import read_records
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.resources.resize import (
    Allocation,
    ResizeProgress,
    allocation_of,
    container_size,
    same_resources,
    with_allocation,
)
from pykubelet.kubelet.types.resources.size import Size
from pykubelet.kubelet.types.updates import is_static
from pykubelet.models import codec
from pykubelet.models.core_v1 import Pod, ResourceRequirements

_MAX_FILE: Final = 16 * MIB
"""Bytes: more than the API server permits for a pod, whose containers have some 150 bytes each here."""


class _Row(msgspec.Struct, frozen=True):
    """Size of a container as stored on disk: CPU in millicores, memory in bytes."""

    cpu_request: int
    cpu_limit: int
    memory_request: int
    memory_limit: int


class _File(msgspec.Struct, frozen=True):
    """Content of a pod's allocation file."""

    containers: dict[str, ResourceRequirements]
    pod: ResourceRequirements | None = None
    generation: int | None = None
    pending: bool = False
    applied: dict[str, _Row] = {}


class _Record(Struct, frozen=True):
    """Allocation of one pod and the state of its resize."""

    allocation: Allocation
    pending: bool = False
    """The pod's cgroup or one of its containers may not have its allocated size yet."""
    applied: Mapping[str, Size] = field(default_factory=dict)
    """Sizes of containers that run with another size than the allocated one."""
    error: str = ""
    saved: bool = False


class AllocationStore:
    """Implements ``types.resize.Allocations``. Changes take effect in memory; :meth:`save` writes them to disk."""

    def __init__(self, files: PodFiles, clock: Clock) -> None:
        self._files = files
        self._guard = Guard("records.resources", clock.monotonic)
        self._records: dict[PodUID, _Record] = {}

    async def load(self, uids: Iterable[PodUID]) -> None:
        """Read records that an earlier agent wrote for these pods; a record that cannot be read counts as missing."""
        wanted = [uid for uid in uids if uid not in self._records]
        self._records |= await read_records(self._guard, wanted, self._read)

    def get(self, uid: PodUID) -> Allocation | None:
        """Return the pod's allocation; None if there is no record."""
        record = self._records.get(uid)
        return record.allocation if record is not None else None

    def set(self, pod: Pod) -> None:
        """Allocate what the pod's spec requests. Running containers keep their size until the resize is applied."""
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
        """Return the resize that is not completely applied yet, if any."""
        record = self._records.get(uid)
        if record is None or not record.pending:
            return None
        return ResizeProgress(record.allocation.generation, record.error)

    def applied(self, uid: PodUID) -> Mapping[str, Size]:
        """Sizes, by container name, of containers that may run with another size than the allocated one."""
        record = self._records.get(uid)
        return record.applied if record is not None else {}

    def note_applied(self, uid: PodUID, container: str, size: Size) -> None:
        """Record the size that a container runs, or will run, with; ignored unless a resize is in progress."""
        record = self._records.get(uid)
        if record is not None and record.pending and record.applied.get(container) != size:
            self._records[uid] = replace(record, applied={**record.applied, container: size}, saved=False)

    def note_error(self, uid: PodUID, message: str) -> bool:
        """Record why the resize could not be applied; return whether the message is new."""
        record = self._records.get(uid)
        if record is None or record.error == message:
            return False
        self._records[uid] = replace(record, error=message)
        return True

    def complete(self, uid: PodUID, allocation: Allocation) -> bool:
        """Mark the resize to ``allocation`` as complete; return False if the pod has another allocation by now."""
        record = self._records.get(uid)
        if record is None or record.allocation is not allocation:
            return False
        self._records[uid] = _Record(allocation)
        return True

    async def save(self, uid: PodUID) -> None:
        """Write the pod's record to disk if it has changed. Raises Transient; Invalid: it is too large."""
        record = self._records.get(uid)
        if record is None or record.saved:
            return
        try:
            await blocking.call_to_end(f"pod/{uid}", self._write, uid, record)
        except OSError as error:
            raise Transient(f"cannot save the allocation of pod {uid}: {error}") from error
        if self._records.get(uid) is record:
            self._records[uid] = replace(record, saved=True)

    def forget(self, uid: PodUID) -> None:
        """Forget a pod whose directory was removed."""
        self._records.pop(uid, None)

    def _write(self, uid: PodUID, record: _Record) -> None:
        path = self._files.resources(uid)
        path.parent.mkdir(mode=0o750, exist_ok=True)
        given = record.allocation
        rows = {name: _row(size) for name, size in record.applied.items()}
        file = _File(dict(given.containers), given.pod, given.generation, record.pending, rows)
        write_state_file(path, codec.encode(file), _MAX_FILE)

    def _read(self, uid: PodUID) -> _Record | None:
        try:
            file = read_state_file(self._files.resources(uid), _MAX_FILE, partial(codec.decode, target=_File))
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
