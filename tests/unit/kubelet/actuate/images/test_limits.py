"""Rate limit and single-flight of pulls."""

import asyncio

import pytest

from pykubelet.base.errors import Permanent
from pykubelet.kubelet.actuate.images.limits import Shared, TokenBucket
from pykubelet.testing.clock import VirtualClock


async def test_a_burst_passes_and_the_rest_waits_its_turn() -> None:
    clock = VirtualClock()
    bucket = TokenBucket(5, 3, clock)
    start = clock.monotonic()
    passed: list[float] = []

    async def take() -> None:
        await bucket.take()
        passed.append(round(clock.monotonic() - start, 3))

    async with asyncio.TaskGroup() as group:
        for _ in range(6):
            group.create_task(take())
        await clock.advance(10)
    assert passed == [0, 0, 0, 0.2, 0.4, 0.6]


async def test_the_bucket_fills_up_again() -> None:
    clock = VirtualClock()
    bucket = TokenBucket(1, 2, clock)
    for _ in range(2):
        await bucket.take()
    await clock.advance(60)
    for _ in range(2):
        await bucket.take()  # would hang on the virtual clock if it had to wait
    assert clock.sleepers == 0


async def test_no_rate_is_no_limit() -> None:
    bucket = TokenBucket(0, 0, VirtualClock())
    for _ in range(1000):
        await bucket.take()


class Job:
    """Count its runs; end when it is released."""

    def __init__(self, error: Permanent | None = None) -> None:
        self.runs = 0
        self.go = asyncio.Event()
        self._error = error

    async def __call__(self) -> str:
        self.runs += 1
        await self.go.wait()
        if self._error:
            raise self._error
        return f"result {self.runs}"


async def test_one_run_serves_all_concurrent_callers() -> None:
    shared: Shared[str] = Shared()
    job = Job()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(shared.run("key", job)) for _ in range(3)]
        await asyncio.sleep(0)
        job.go.set()
    assert [task.result() for task in tasks] == ["result 1"] * 3
    assert await shared.run("key", job) == "result 2"


async def test_keys_do_not_share() -> None:
    shared: Shared[str] = Shared()
    job = Job()
    job.go.set()
    await asyncio.gather(shared.run("a", job), shared.run("b", job))
    assert job.runs == 2


async def test_an_error_goes_to_all() -> None:
    shared: Shared[str] = Shared()
    job = Job(Permanent("no"))
    tasks = [asyncio.create_task(shared.run("key", job)) for _ in range(2)]
    await asyncio.sleep(0)
    job.go.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [str(result) for result in results] == ["no", "no"]
    assert job.runs == 1


async def test_waiting_caller_takes_over_when_the_first_is_cancelled() -> None:
    shared: Shared[str] = Shared()
    job = Job()
    first = asyncio.create_task(shared.run("key", job))
    second = asyncio.create_task(shared.run("key", job))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    job.go.set()
    assert await second == "result 2"
