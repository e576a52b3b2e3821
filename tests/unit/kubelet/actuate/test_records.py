"""Records of an earlier agent: a damaged record or a hung disk does not keep other records from being read."""

import threading
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.actuate import records
from pykubelet.kubelet.actuate.podruntime import allocation_store
from pykubelet.kubelet.actuate.podruntime.allocation_store import AllocationStore
from pykubelet.kubelet.actuate.podruntime.plan.requested_restarts import RestartRequest
from pykubelet.kubelet.actuate.podruntime.restart_requests import RestartRequests
from pykubelet.kubelet.actuate.userns import IdRangeManager
from pykubelet.kubelet.actuate.userns.plan.id_ranges import UNIT, IdPool, to_file
from pykubelet.kubelet.actuate.volumes.pod_directories import PodDirs
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.resources.resize import allocation_of
from pykubelet.models.core_v1 import Container, Pod, PodSpec, ResourceRequirements
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.testing.clock import VirtualClock

GOOD, BAD = PodUID("good"), PodUID("bad")
_DAMAGED = [b"", b"\xff", b"[" * 100_000, b'{"containers": {"a": {"requests": 3}}}', b"{}" * 9]


@pytest.fixture
def dirs(tmp_path: Path) -> PodDirs:
    made = PodDirs.at(tmp_path)
    for uid in (GOOD, BAD):
        made.prepare(uid)
    return made


@pytest.mark.parametrize("damaged", _DAMAGED)
async def test_damaged_resource_record_keeps_no_other_from_being_read(
    dirs: PodDirs, damaged: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    dirs.resources(BAD).write_bytes(damaged)
    dirs.resources(GOOD).write_bytes(b'{"containers": {}}')
    allocations = AllocationStore(dirs, VirtualClock())
    await allocations.load([BAD, GOOD])
    assert allocations.get(GOOD) is not None
    assert allocations.get(BAD) is None
    assert [getattr(r, "item", "") for r in caplog.records] == [BAD]


def _pod(containers: int) -> Pod:
    resources = ResourceRequirements(requests={"cpu": "10m", "memory": "1Mi"}, limits={"cpu": "1", "memory": "1Gi"})
    parts = (Container(name=f"container-{number}", image="i", resources=resources) for number in range(containers))
    return Pod(metadata=ObjectMeta(name="p", namespace="n", uid=GOOD), spec=PodSpec(containers=tuple(parts)))


async def test_resource_record_of_a_pod_with_very_many_containers_is_read_again(dirs: PodDirs) -> None:
    allocations = AllocationStore(dirs, VirtualClock())
    allocations.set(_pod(20_000))
    await allocations.save(GOOD)
    again = AllocationStore(dirs, VirtualClock())
    await again.load([GOOD])
    assert again.get(GOOD) == allocations.get(GOOD)


async def test_resource_record_that_could_not_be_read_again_is_not_written(
    dirs: PodDirs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocation_store, "_MAX_FILE", 500)
    allocations = AllocationStore(dirs, VirtualClock())
    allocations.set(small := _pod(1))
    await allocations.save(GOOD)
    allocations.set(_pod(100))
    with pytest.raises(Invalid, match=r"would have [0-9]+ bytes, of which at most 500 can be read again"):
        await allocations.save(GOOD)
    again = AllocationStore(dirs, VirtualClock())
    await again.load([GOOD])
    assert again.get(GOOD) == allocation_of(small)


@pytest.mark.parametrize("damaged", _DAMAGED)
async def test_damaged_restart_request_keeps_no_other_from_being_read(
    dirs: PodDirs, damaged: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    dirs.restarts(BAD).write_bytes(damaged)
    dirs.restarts(GOOD).write_bytes(b'{"pod": true}')
    requests = RestartRequests(dirs, VirtualClock())
    await requests.load([BAD, GOOD])
    assert requests._requests == {GOOD: RestartRequest(pod=True)}
    assert [getattr(r, "item", "") for r in caplog.records] == [BAD]


@pytest.mark.parametrize("damaged", _DAMAGED)
async def test_damaged_user_namespace_record_keeps_no_other_from_being_read(
    dirs: PodDirs, damaged: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    pool = IdPool.default(UNIT)
    dirs.user_namespace(BAD).write_bytes(damaged)
    dirs.user_namespace(GOOD).write_bytes(to_file(pool.next_free(set(), None), UNIT))
    users = IdRangeManager(file=dirs.user_namespace, supported=lambda _: True, clock=VirtualClock())
    await users.load([BAD, GOOD])
    assert users._allocated.keys() == {GOOD}
    assert [getattr(r, "item", "") for r in caplog.records] == [BAD]


async def test_record_on_a_hung_file_system_delays_no_other(dirs: PodDirs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_DEADLINE", 1.0)
    dirs.resources(GOOD).write_bytes(b'{"containers": {}}')
    allocations, release = AllocationStore(dirs, VirtualClock()), threading.Event()
    original = AllocationStore._read

    def read(self: AllocationStore, uid: PodUID) -> object:
        if uid == BAD:
            release.wait(30)
        return original(self, uid)

    monkeypatch.setattr(AllocationStore, "_read", read)
    try:
        await allocations.load([BAD, GOOD])
    finally:
        release.set()
    assert allocations.get(GOOD) is not None
