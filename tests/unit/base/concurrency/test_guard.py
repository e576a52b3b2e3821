"""One failing item is logged, counted and left out for a while; the loop goes on."""

import asyncio
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.concurrency.guard import Guard, item_failures
from pykubelet.base.concurrency.shield import shielded
from pykubelet.base.errors import Transient
from pykubelet.testing.clock import VirtualClock


def logged(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [record.__dict__["item"] for record in caplog.records if record.levelno == level]


def test_items_beside_a_failing_one_are_handled() -> None:
    guard = Guard("test.beside", VirtualClock().monotonic)
    done = []
    for item in guard.due(["a", "b", "c"]):
        with guard.item(item) as attempt:
            if item == "b":
                raise UnicodeDecodeError("utf-8", b"\xc3", 0, 1, "unexpected end of data")
            done.append(item)
        assert (attempt.error is None) == (item != "b")
    assert done == ["a", "c"]
    assert item_failures()["test.beside"] == 1
    assert list(guard.failing) == ["b"]


async def test_failing_item_is_left_out_longer_each_time() -> None:
    clock = VirtualClock()
    guard = Guard("test.longer", clock.monotonic, initial=1, maximum=8)
    tried = []
    for _ in range(30):
        for item in guard.due(["bad", "good"]):
            with guard.item(item):
                if item == "bad":
                    tried.append(clock.monotonic() - 1000)
                    raise Transient("not now")
        await clock.advance(1)
    assert tried == [0, 1, 3, 7, 15, 23]
    assert guard.delay("bad") == 1
    assert guard.delay("good") == 0


def test_same_failure_is_logged_once_and_success_after_it_too(caplog: pytest.LogCaptureFixture) -> None:
    guard = Guard("test.log", VirtualClock().monotonic)
    with caplog.at_level(logging.INFO):
        for _ in range(5):
            with guard.item("pod"):
                raise OSError(30, "Read-only file system")
        assert logged(caplog, logging.WARNING) == ["pod"]
        for _ in range(2):
            with guard.item("pod"):
                pass
        assert logged(caplog, logging.INFO) == ["pod"]
        assert caplog.records[-1].__dict__["failures"] == 5


def test_defect_is_logged_with_its_trace_and_expected_error_without(caplog: pytest.LogCaptureFixture) -> None:
    guard = Guard("test.trace", VirtualClock().monotonic)
    with guard.item("a"):
        raise KeyError("defect")
    with guard.item("b"):
        raise Transient("expected")
    assert [bool(record.exc_info) for record in caplog.records] == [True, False]


def test_success_ends_the_back_off() -> None:
    guard = Guard("test.success", VirtualClock().monotonic)
    with guard.item("pod"):
        raise Transient("once")
    assert not guard.is_due("pod")
    with guard.item("pod"):
        pass
    assert guard.is_due("pod")
    assert not guard.failing


@pytest.mark.parametrize("gone", [False, True], ids=["succeeded", "gone"])
def test_delays_of_an_item_start_again_after_it_succeeded_or_was_gone(gone: bool) -> None:
    guard = Guard("test.again", VirtualClock().monotonic, initial=1, maximum=8)
    for expected in (1, 2, 4):
        with guard.item("pod"):
            raise Transient("not now")
        assert guard.delay("pod") == expected
    if gone:
        assert list(guard.due(["other"])) == ["other"]
    else:
        with guard.item("pod"):
            pass
    with guard.item("pod"):
        raise Transient("not now")
    assert guard.delay("pod") == 1


def test_items_that_are_gone_are_forgotten() -> None:
    guard = Guard("test.gone", VirtualClock().monotonic)
    with guard.item("gone"):
        raise Transient("once")
    assert list(guard.due(["other"])) == ["other"]
    assert not guard.failing
    assert guard.is_due("gone")


def test_failing_items_are_bounded() -> None:
    guard = Guard("test.bound", VirtualClock().monotonic)
    for number in range(5000):
        with guard.item(str(number)):
            raise Transient("x")
    assert len(guard.failing) == 4096
    assert "4999" in guard.failing


async def test_cancellation_passes_through() -> None:
    guard = Guard("test.cancel", VirtualClock().monotonic)
    with pytest.raises(asyncio.CancelledError), guard.item("pod"):
        raise asyncio.CancelledError
    assert item_failures()["test.cancel"] == 0


@given(st.text(alphabet=st.characters(codec=None), max_size=20), st.text(max_size=20))
def test_any_name_and_message_can_be_logged(name: str, message: str) -> None:
    guard = Guard("test.names", VirtualClock().monotonic)
    with guard.item(name + "\udcc3"):
        raise Transient(message + "\ud800")
    for error in guard.failing.values():
        error.encode()


async def test_loop_that_is_cancelled_while_an_item_fails_ends() -> None:
    """Protected work (`shielded`) raises its error instead of the cancellation, which would be lost."""
    begun, go, rounds = asyncio.Event(), asyncio.Event(), 0

    async def write() -> None:
        begun.set()
        await go.wait()
        raise Transient("the disk is full")

    async def loop() -> None:
        nonlocal rounds
        guard = Guard("test.cancelled", VirtualClock().monotonic)
        while True:
            rounds += 1
            with guard.item("pod"):
                await shielded(write)
            await asyncio.Event().wait()

    task = asyncio.ensure_future(loop())
    await begun.wait()
    task.cancel()
    await asyncio.sleep(0)
    go.set()
    await asyncio.wait({task}, timeout=5)
    assert task.cancelled() and rounds == 1
    assert item_failures()["test.cancelled"] == 1


async def test_time_limit_that_expires_while_an_item_fails_is_kept() -> None:
    go = asyncio.Event()
    asyncio.get_running_loop().call_later(0.05, go.set)

    async def write() -> None:
        await go.wait()
        raise Transient("the disk is full")

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            with Guard("test.limit", VirtualClock().monotonic).item("pod"):
                await shielded(write)


def test_item_that_fails_in_a_thread_without_an_event_loop_is_suppressed() -> None:
    with Guard("test.thread", VirtualClock().monotonic).item("pod"):
        raise Transient("no")
