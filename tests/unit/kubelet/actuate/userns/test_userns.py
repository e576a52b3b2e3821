"""User namespaces: ranges are allocated once each, recorded on disk, and released."""

import json
import os
import pwd
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.errors import Invalid, Transient
from pykubelet.kubelet.actuate.cri_messages.config_types import IdMapping
from pykubelet.kubelet.actuate.userns import IdPool, IdRangeManager, UserNamespaceConfig
from pykubelet.kubelet.actuate.userns import id_range_manager as module
from pykubelet.kubelet.actuate.userns.plan.id_ranges import UNIT, from_file, parse_getsubids, to_file
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import Pod
from pykubelet.testing.clock import VirtualClock

A, B, C = PodUID("a"), PodUID("b"), PodUID("c")
POOL = IdPool(UNIT, 3 * UNIT)


def pod(uid: str, host_users: bool | None = False) -> Pod:
    return from_builtins({"metadata": {"name": uid, "uid": uid}, "spec": {"hostUsers": host_users}}, Pod)


@pytest.mark.parametrize(
    ("pool", "max_pods", "text"),
    [
        (IdPool.default(), 110, ""),
        (IdPool.default(4 * UNIT), 110, ""),
        (IdPool(UNIT, 3 * UNIT), 3, ""),
        (IdPool(UNIT, 3 * UNIT), 4, "enough for 3 pods, not for 4"),
        (IdPool(0, 3 * UNIT), 1, "must be between"),
        (IdPool((1 << 32) - UNIT, 2 * UNIT), 1, "must be between"),
        (IdPool(UNIT + 1, 3 * UNIT), 1, "whole ranges"),
        (IdPool(UNIT, 3 * UNIT + 1), 1, "whole ranges"),
        (IdPool(UNIT, 3 * UNIT, 1000), 1, "multiple of 65536"),
        (IdPool(UNIT, 3 * UNIT, 0), 1, "multiple of 65536"),
    ],
)
def test_id_pool_too_small_for_the_pods_is_refused(pool: IdPool, max_pods: int, text: str) -> None:
    if text:
        with pytest.raises(Invalid, match=text):
            pool.check(max_pods)
    else:
        pool.check(max_pods)


@pytest.mark.parametrize("per_pod", [UNIT, 4 * UNIT])
def test_range_with_the_id_that_is_none_is_not_given_to_a_pod(per_pod: int) -> None:
    """The kernel refuses it: the pod of all that gets it would never start."""
    pool, last = IdPool.default(per_pod), (1 << 32) - per_pod
    assert not pool.owns(last) and pool.owns(last - per_pod)
    assert pool.next_free(set(), last - 2 * per_pod) == last - per_pod
    assert pool.next_free(set(), last - per_pod) == per_pod


@given(st.sets(st.integers(0, 5)), st.none() | st.integers(0, 5))
def test_the_next_free_range_is_free_and_whole(taken: set[int], last: int | None) -> None:
    pool = IdPool(7 * UNIT, 6 * UNIT)
    used = {(7 + index) * UNIT for index in taken}
    after = None if last is None else (7 + last) * UNIT
    if len(taken) == 6:
        with pytest.raises(Transient):
            pool.next_free(used, after)
    else:
        found = pool.next_free(used, after)
        assert found not in used and pool.owns(found)


@pytest.mark.parametrize(
    ("uids", "gids", "text"),
    [
        (b"0: kubelet 65536 7208960\n", b"0: kubelet 65536 7208960\n", ""),
        (b"0: kub\xe9let 65536 7208960\n", b"0: kub\xe9let 65536 7208960\n", ""),
        (b"0: kubelet 65536 7208960\n", b"0: kubelet 65536 65536\n", "other sub-ids"),
        (b"", b"", "exactly one range"),
        (b"0: kubelet 1 2\n1: kubelet 3 4\n", b"0: kubelet 1 2\n1: kubelet 3 4\n", "exactly one range"),
        (b"0: kubelet x 2\n", b"0: kubelet x 2\n", "exactly one range"),
        (b"0: kubelet \xe9 2\n", b"0: kubelet \xe9 2\n", r"exactly one range .* not '0: kubelet \\udce9 2'"),
        (b"0: kubelet 1 %s\n" % (b"9" * 5000), b"0: kubelet 1 %s\n" % (b"9" * 5000), "exactly one range"),
    ],
)
def test_getsubids_output_becomes_an_id_pool_or_an_error(uids: bytes, gids: bytes, text: str) -> None:
    if text:
        with pytest.raises(Invalid, match=text):
            parse_getsubids(uids, gids, UNIT)
    else:
        assert parse_getsubids(uids, gids, UNIT) == IdPool(65536, 7208960)


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f | {"uidMappings": []},
        lambda f: f | {"gidMappings": [{"hostId": 131072, "containerId": 0, "length": 65536}]},
        lambda f: {name: [{"hostId": 65536, "containerId": 1, "length": 65536}] for name in f},
        lambda f: {name: [{"hostId": 65537, "containerId": 0, "length": 65536}] for name in f},
        lambda f: {name: [{"hostId": 0, "containerId": 0, "length": 65536}] for name in f},
        lambda f: {name: [{"hostId": 65536, "containerId": 0, "length": 131072}] for name in f},
        lambda f: {"uidMappings": 7},
    ],
)
def test_invalid_record_raises(change: Callable[[dict[str, object]], dict[str, object]]) -> None:
    content = json.loads(to_file(65536, 65536))
    assert from_file(json.dumps(content).encode(), POOL) == 65536
    with pytest.raises(Invalid):
        from_file(json.dumps(change(content)).encode(), POOL)


# -- the manager ------------------------------------------------------------------------------------------------------


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> IdRangeManager:
    def no_user(name: str) -> None:
        raise KeyError(name)

    monkeypatch.setattr(pwd, "getpwnam", no_user)
    for name in (A, B, C):
        (tmp_path / name).mkdir()
    return make(tmp_path)


def make(root: Path, *, per_pod: int = UNIT, supported: bool | None = True) -> IdRangeManager:
    return IdRangeManager(
        file=lambda uid: root / uid / "userns",
        supported=lambda handler: supported,
        clock=VirtualClock(),
        config=UserNamespaceConfig(per_pod),
    )


async def test_each_pod_gets_ids_of_its_own_and_keeps_them(users: IdRangeManager, tmp_path: Path) -> None:
    await users.load([])
    for name in ("a", "b", "a"):
        await users.allocate(pod(name), "")
    first, second = users.given(pod("a")), users.given(pod("b"))
    assert first is not None and second is not None
    assert first.uids == first.gids == (IdMapping(65536, 0, 65536),)
    assert second.uids == (IdMapping(131072, 0, 65536),)
    assert json.loads((tmp_path / "a" / "userns").read_text()) == {
        "uidMappings": [{"hostId": 65536, "containerId": 0, "length": 65536}],
        "gidMappings": [{"hostId": 65536, "containerId": 0, "length": 65536}],
    }
    again = make(tmp_path)
    await again.load([A, B, C])
    assert again.given(pod("a")) == first and again.given(pod("b")) == second and again.given(pod("c")) is None
    await again.allocate(pod("c"), "")
    third = again.given(pod("c"))
    assert third is not None and third.uids[0].host_id == 3 * UNIT


async def test_released_ids_are_free_again(users: IdRangeManager, tmp_path: Path) -> None:
    await users.load([])
    await users.allocate(pod("a"), "")
    for _ in range(2):
        await users.release(A)
    assert users.given(pod("a")) is None and not (tmp_path / "a" / "userns").exists()
    await users.release(PodUID("never seen"))


async def test_pods_with_the_nodes_users_need_nothing(users: IdRangeManager, tmp_path: Path) -> None:
    for value in (None, True):
        await users.allocate(pod("a", value), "")
        assert users.given(pod("a", value)) is None
    assert not (tmp_path / "a" / "userns").exists()


@pytest.mark.parametrize(
    ("handler", "supported", "text"),
    [
        ("", False, "can't set `spec.hostUsers: false`, runtime does not support user namespaces"),
        ("", None, "can't set `spec.hostUsers: false`, runtime does not support user namespaces"),
        ("kata", False, 'RuntimeClass handler "kata" does not support user namespaces'),
    ],
)
async def test_runtime_without_user_namespaces_raises(
    tmp_path: Path, handler: str, supported: bool | None, text: str
) -> None:
    users = make(tmp_path, supported=supported)
    with pytest.raises(Invalid, match=text):
        await users.allocate(pod("a"), handler)


async def test_record_that_cannot_be_written_raises_transient(users: IdRangeManager) -> None:
    with pytest.raises(Transient, match="create user namespace"):
        await users.allocate(pod("no-directory"), "")
    assert users.given(pod("no-directory")) is None


async def test_damaged_record_and_duplicate_ids_affect_no_other_pod(users: IdRangeManager, tmp_path: Path) -> None:
    (tmp_path / "a" / "userns").write_text("{")
    for name in ("b", "c"):
        (tmp_path / name / "userns").write_bytes(to_file(2 * UNIT, UNIT))
    await users.load([A, B, C])
    assert users.given(pod("a")) is None
    assert [users.given(pod(name)) is None for name in ("b", "c")] == [False, True]


async def test_ids_of_the_user_kubelet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "bin" / "getsubids"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho 0: kubelet 655360 7208960\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(pwd, "getpwnam", lambda name: None)
    assert await module.node_pool(UNIT) == IdPool(655360, 7208960)
    tool.write_bytes(b"#!/bin/sh\necho 0: kub\xe9let 655360 7208960\n")
    assert await module.node_pool(UNIT) == IdPool(655360, 7208960)
    tool.write_text("#!/bin/sh\nexit 1\n")
    users = make(tmp_path)
    (tmp_path / "a").mkdir()
    await users.load([])
    with pytest.raises(Invalid, match="cannot read the sub-ids"):
        await users.allocate(pod("a"), "")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert await module.node_pool(UNIT) == IdPool.default()


async def test_invalid_length_rejects_only_pods_with_user_namespaces(users: IdRangeManager, tmp_path: Path) -> None:
    odd = make(tmp_path, per_pod=1000)
    await odd.load([])
    await odd.allocate(pod("a", None), "")
    with pytest.raises(Invalid, match="idsPerPod 1000"):
        await odd.allocate(pod("a"), "")
