"""Blocking jobs: a hung thread delays only its own pod."""

import asyncio
import threading
import time
from collections.abc import Iterator
from functools import partial

import pytest

from pykubelet.base.errors import NotFound, Transient
from pykubelet.kubelet.actuate.volumes.volume_threads import BlockingJobs
from pykubelet.testing.wait import held_calls, settle, until


class Gate:
    """Jobs that wait until it is opened."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self.began: list[str] = []
        self.times: list[float] = []
        self.ended: list[str] = []

    def job(self, name: str) -> str:
        self.times.append(time.monotonic())
        self.began.append(name)
        self.event.wait(30)
        self.ended.append(name)
        return name


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    with held_calls():
        yield gate
    gate.event.set()


async def test_results_and_errors_are_returned() -> None:
    blocking = BlockingJobs(5)
    assert await blocking.run("a", lambda: 7) == 7

    def fail() -> None:
        raise NotFound("gone")

    with pytest.raises(NotFound, match="gone"):
        await blocking.run("a", fail)
    assert await blocking.run("a", lambda: 8) == 8


async def test_a_hung_job_fails_after_the_deadline_and_others_go_on(gate: Gate) -> None:
    blocking = BlockingJobs(0.05)
    with pytest.raises(Transient, match=r"has not ended within 0\.05 s"):
        await blocking.run("a", lambda: gate.job("hung"))
    assert await BlockingJobs(30).run("b", lambda: "fine") == "fine"


async def test_the_next_job_of_the_same_pod_waits_for_the_hung_one(gate: Gate) -> None:
    blocking = BlockingJobs(0.05)
    with pytest.raises(Transient):
        await blocking.run("a", lambda: gate.job("first"))
    await until(lambda: gate.began)
    with pytest.raises(Transient):
        await blocking.run("a", lambda: gate.job("second"))
    assert gate.began == ["first"]
    gate.event.set()
    await until(lambda: gate.ended == ["first"])
    assert await BlockingJobs(30).run("a", lambda: gate.job("third")) == "third"


async def test_a_cancelled_job_is_waited_for(gate: Gate) -> None:
    blocking = BlockingJobs(5)
    task = asyncio.create_task(blocking.run("a", lambda: gate.job("first")))
    await until(lambda: gate.began == ["first"])
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    second = asyncio.create_task(blocking.run("a", lambda: gate.job("second")))
    await settle()
    assert gate.began == ["first"]
    gate.event.set()
    assert await second == "second"
    assert gate.ended == ["first", "second"]


async def test_young_jobs_are_bounded_but_hung_ones_do_not_count(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykubelet.base.concurrency.thread_calls.SHORT", 0.1)
    monkeypatch.setattr("pykubelet.base.concurrency.thread_calls._PARALLEL", 2)
    blocking = BlockingJobs(5)
    start = time.monotonic()
    tasks = [asyncio.create_task(blocking.run(str(i), partial(gate.job, str(i)))) for i in range(4)]
    await until(lambda: len(gate.began) == 4)
    assert gate.times[1] < gate.times[2], "the first two at once"
    assert gate.times[2] >= start + 0.1, "the others when those are young no longer"
    assert await blocking.run("x", lambda: "fine") == "fine"
    gate.event.set()
    assert await asyncio.gather(*tasks) == ["0", "1", "2", "3"]


async def test_finished_job_frees_its_slot() -> None:
    blocking = BlockingJobs(5)
    for i in range(50):
        assert await blocking.run(str(i % 3), lambda: 1) == 1


async def test_threads_do_not_keep_the_process_alive() -> None:
    assert await BlockingJobs(5).run("a", lambda: threading.current_thread().daemon)
