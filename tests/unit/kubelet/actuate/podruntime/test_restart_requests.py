"""Requests are on disk before they are acknowledged, and gone when they are done."""

import asyncio
import gc
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid, Transient
from pykubelet.kubelet.actuate.podruntime import restart_requests
from pykubelet.kubelet.actuate.podruntime.plan.requested_restarts import RestartRequest
from pykubelet.kubelet.actuate.podruntime.restart_requests import RestartRequests
from pykubelet.kubelet.actuate.volumes.pod_directories import PodDirs
from pykubelet.kubelet.types.ids import ContainerID, PodRef, PodUID, SandboxID
from pykubelet.kubelet.types.runtime import ContainerState, ContainerStatus, PodRuntimeStatus
from pykubelet.testing.clock import VirtualClock

UID = PodUID("u")


def _status(number: int) -> PodRuntimeStatus:
    attempt = ContainerStatus(ContainerID(f"a{number}"), "a", ContainerState.RUNNING, SandboxID("s"))
    return PodRuntimeStatus(PodRef("ns", "p", UID), (), (attempt,))


def _requests(dirs: PodDirs) -> RestartRequests:
    return RestartRequests(dirs, VirtualClock())


@pytest.fixture
def dirs(tmp_path: Path) -> PodDirs:
    return PodDirs.at(tmp_path)


async def test_acknowledged_request_survives_and_is_done_once(dirs: PodDirs) -> None:
    await _requests(dirs).add(UID, RestartRequest(containers=frozenset({"a"})))
    second = _requests(dirs)
    await second.load([UID])
    assert [c.restart_requested for c in (await second.apply(_status(0))).containers] == [True]
    third = _requests(dirs)  # the agent was killed between the kill and the start
    await third.load([UID])
    assert [c.restart_requested for c in (await third.apply(_status(0))).containers] == [True]
    assert [c.restart_requested for c in (await third.apply(_status(1))).containers] == [False]
    assert not dirs.restarts(UID).exists()
    fourth = _requests(dirs)
    await fourth.load([UID])
    assert await fourth.apply(_status(1)) == _status(1)


async def test_damaged_file_is_set_aside(dirs: PodDirs) -> None:
    dirs.pod(UID).mkdir()
    dirs.restarts(UID).write_bytes(b"{")
    requests = _requests(dirs)
    await requests.load([UID])
    assert await requests.apply(_status(0)) == _status(0)
    assert not dirs.restarts(UID).exists()


async def test_request_that_cannot_be_saved_is_not_acknowledged(dirs: PodDirs) -> None:
    dirs.pod(UID).write_text("a file in the place of the pod's directory")
    requests = _requests(dirs)
    with pytest.raises(Transient, match="cannot save the restart request of pod u"):
        await requests.add(UID, RestartRequest(pod=True))
    assert await requests.apply(_status(0)) == _status(0)


async def test_request_of_a_pod_with_very_many_containers_is_read_again(dirs: PodDirs) -> None:
    many = frozenset(f"container-{number:053}" for number in range(12_000))
    await _requests(dirs).add(UID, RestartRequest(containers=many))
    again = _requests(dirs)
    await again.load([UID])
    attempts = tuple(
        ContainerStatus(ContainerID(f"{number:064}"), name, ContainerState.RUNNING, SandboxID("s"))
        for number, name in enumerate(sorted(many))
    )
    status = PodRuntimeStatus(PodRef("ns", "p", UID), (), attempts)
    assert all(each.restart_requested for each in (await again.apply(status)).containers)
    third = _requests(dirs)
    await third.load([UID])
    assert all(each.restart_requested for each in (await third.apply(status)).containers)


async def test_request_that_could_not_be_read_again_is_refused(dirs: PodDirs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restart_requests, "_MAX_FILE", 200)
    requests = _requests(dirs)
    await requests.add(UID, RestartRequest(containers=frozenset({"a"})))
    with pytest.raises(Invalid, match=r"would have [0-9]+ bytes, of which at most 200 can be read again"):
        await requests.add(UID, RestartRequest(containers=frozenset({"b" * 200})))
    again = _requests(dirs)
    await again.load([UID])
    assert [each.restart_requested for each in (await again.apply(_status(0))).containers] == [True]


async def test_forgotten_pod_has_no_request(dirs: PodDirs) -> None:
    requests = _requests(dirs)
    await requests.add(UID, RestartRequest(containers=frozenset({"a"})))
    requests.forget(UID)
    assert await requests.apply(_status(0)) == _status(0)


async def test_request_that_ends_after_its_pod_was_forgotten_leaves_no_lock(dirs: PodDirs) -> None:
    requests = _requests(dirs)
    before = _locks()
    request = asyncio.ensure_future(requests.add(UID, RestartRequest(pod=True)))
    await asyncio.sleep(0)
    requests.forget(UID)
    await request
    await requests.add(PodUID("v"), RestartRequest(pod=True))
    assert _locks() == before


def _locks() -> int:
    """Number of the locks that exist."""
    gc.collect()
    return sum(isinstance(each, asyncio.Lock) for each in gc.get_objects())
