"""Helpers of the pod runtime: concurrency, name conflicts, durations, requests of hooks."""

import asyncio

import pytest
from grpc import StatusCode

from pykubelet.base.errors import Conflict, Invalid, PykubeletError, Transient
from pykubelet.kubelet.actuate.cri.errors import cri_error
from pykubelet.kubelet.actuate.podruntime.concurrency import both, concurrently, within
from pykubelet.kubelet.actuate.podruntime.runtime_errors import NameConflicts, error_message, is_name_conflict
from pykubelet.kubelet.actuate.podruntime.start.lifecycle_hooks import HookError, HookTarget, http_request
from pykubelet.kubelet.actuate.podruntime.start.start_container import go_duration
from pykubelet.kubelet.types.ids import ContainerID, PodRef, PodUID
from pykubelet.models.core_v1 import ContainerPort, HTTPGetAction
from pykubelet.testing.clock import VirtualClock


async def give(value: int) -> int:
    await asyncio.sleep(0)
    return value


async def fail() -> int:
    raise Invalid("no")


class EndlessWork:
    """Work that never ends and tells whether it was cancelled."""

    cancelled = False

    async def run(self) -> int:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return 0


async def test_concurrently_returns_results_in_order() -> None:
    assert await concurrently([give(1), give(2)], "t") == [1, 2]
    assert await concurrently([], "t") == []
    assert await both(give(1), concurrently([give(2)], "t"), "t") == (1, [2])


async def test_concurrently_cancels_the_others_and_raises_the_first_error() -> None:
    endless = EndlessWork()
    with pytest.raises(Invalid, match="no"):
        await concurrently([endless.run(), fail()], "t")
    assert endless.cancelled
    with pytest.raises(Invalid, match="no"):
        await both(concurrently([fail()], "t"), EndlessWork().run(), "t")


async def test_cancelling_concurrently_cancels_all() -> None:
    endless = [EndlessWork(), EndlessWork()]
    task = asyncio.ensure_future(concurrently([e.run() for e in endless], "t"))
    await asyncio.sleep(0.0)
    await asyncio.sleep(0.0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [e.cancelled for e in endless] == [True, True]


async def test_thousands_that_begin_concurrently_leave_other_tasks_their_turn() -> None:
    """A pod may have 8,000 containers: their first steps took 10 s in one iteration of the event loop."""
    begun = 0
    seen: set[int] = set()

    async def begin() -> None:
        nonlocal begun
        begun += 1

    async def other() -> None:
        while True:
            seen.add(begun)
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await concurrently((begin() for _ in range(500)), "t")
    task.cancel()
    assert begun == 500 and len(seen) > 20


async def test_concurrently_that_is_cancelled_while_its_work_begins_ends_what_has_begun() -> None:
    endless = [EndlessWork() for _ in range(100)]
    task = asyncio.ensure_future(concurrently([each.run() for each in endless], "t"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert 16 <= sum(each.cancelled for each in endless) < 100


async def test_within_ends_a_call_at_its_time_limit() -> None:
    clock = VirtualClock()

    async def nap() -> None:
        await clock.sleep(3)

    task = asyncio.ensure_future(within(clock, 5, nap(), "t"))
    await clock.advance(3)
    assert await task is True
    task = asyncio.ensure_future(within(clock, 2, nap(), "t"))
    await clock.advance(2)
    assert await task is False
    assert clock.sleepers == 0

    async def broken() -> None:
        raise Invalid("no")

    with pytest.raises(Invalid):
        await within(clock, 5, broken(), "t")


@pytest.mark.parametrize(
    ("error", "conflict"),
    [
        (Conflict("there already"), True),
        (cri_error(StatusCode.ALREADY_EXISTS, "CreateContainer", "x", "y"), True),
        (Transient('failed to reserve container name "a_b": name "a_b" is reserved for "0af"'), True),
        (Transient('failed to reserve sandbox name "a_b": name "a_b" is reserved for "0af"'), True),
        (Transient("error reserving ctr name k8s_a for id 0af: name is reserved"), True),
        (Transient("the name of the user is unknown"), False),
        (Transient("port 80 is reserved"), False),
        # A program can have such a name; a quadratic search would take an hour.
        pytest.param(Transient("name reserving " * 70_000), True, id="long, in order"),
        pytest.param(Transient("name " * 200_000), False, id="long"),
    ],
)
def test_name_conflict_is_recognized_by_the_error(error: PykubeletError, conflict: bool) -> None:
    assert is_name_conflict(error) is conflict


def test_conflict_counts_raise_the_attempt_after_the_second() -> None:
    counts, uid = NameConflicts(), PodUID("u")
    extras = []
    for _ in range(5):
        counts.note(uid, "a")
        extras.append(counts.extra(uid, "a"))
    assert extras == [0, 0, 1, 2, 3]
    assert counts.extra(uid, "b") == 0
    counts.clear(uid, "a")
    assert counts.extra(uid, "a") == 0
    for _ in range(3):
        counts.note(uid, "a")
    counts.forget(uid)
    assert counts.extra(uid, "a") == 0


def test_error_message_of_runtime_has_no_code() -> None:
    assert error_message(cri_error(StatusCode.UNKNOWN, "CreateContainer", "x", "disk full")) == "disk full"
    assert error_message(OSError("disk full")) == "disk full"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (10, "10s"), (60, "1m0s"), (80, "1m20s"), (300, "5m0s"), (3661.5, "1h1m1s")],
)
def test_go_duration_has_the_text_of_go(seconds: float, text: str) -> None:
    assert go_duration(seconds) == text


TARGET = HookTarget(
    PodRef("ns", "web", PodUID("u")),
    "app",
    ContainerID("c"),
    (ContainerPort(name="web", container_port=8080),),
    ("10.0.0.1", "fd00::1"),
)


@pytest.mark.parametrize(
    ("action", "url"),
    [
        (HTTPGetAction(port=80), "http://10.0.0.1:80/"),
        (HTTPGetAction(port="web", path="/a?b=c"), "http://10.0.0.1:8080/a?b=c"),
        (HTTPGetAction(port="81", path="a"), "http://10.0.0.1:81/a"),
        (HTTPGetAction(port=443, scheme="HTTPS", host="example.com"), "https://example.com:443/"),
        (HTTPGetAction(port=80, host="fd00::2"), "http://[fd00::2]:80/"),
    ],
)
def test_http_request_of_a_hook_has_the_url_of_its_target(action: HTTPGetAction, url: str) -> None:
    assert http_request(action, TARGET).url == url


@pytest.mark.parametrize("port", [0, -1, 65536, "nowhere", ""])
def test_invalid_hook_port_raises(port: int | str) -> None:
    with pytest.raises(HookError):
        http_request(HTTPGetAction(port=port), TARGET)
