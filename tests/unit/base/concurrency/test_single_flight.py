"""Single flight: one run for concurrent callers."""

import asyncio

import pytest

from pykubelet.base.concurrency.single_flight import SingleFlight
from pykubelet.base.errors import Permanent


class Job:
    """Count its runs; end when it is released."""

    def __init__(self, error: Exception | None = None) -> None:
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
    flights: SingleFlight[str, str] = SingleFlight()
    job = Job()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(flights.run("key", job)) for _ in range(3)]
        await asyncio.sleep(0)
        job.go.set()
    assert [task.result() for task in tasks] == ["result 1"] * 3
    assert await flights.run("key", job) == "result 2"


async def test_keys_do_not_share() -> None:
    flights: SingleFlight[str, str] = SingleFlight()
    job = Job()
    job.go.set()
    await asyncio.gather(flights.run("a", job), flights.run("b", job))
    assert job.runs == 2


@pytest.mark.parametrize("error", [Permanent("no"), ValueError("no")])
async def test_error_of_a_flight_is_raised_to_all_callers(error: Exception) -> None:
    flights: SingleFlight[str, str] = SingleFlight()
    job = Job(error)
    tasks = [asyncio.create_task(flights.run("key", job)) for _ in range(2)]
    await asyncio.sleep(0)
    job.go.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [str(result) for result in results] == ["no", "no"]
    assert job.runs == 1


async def test_waiting_caller_takes_over_when_the_first_is_cancelled() -> None:
    flights: SingleFlight[str, str] = SingleFlight()
    job = Job()
    first = asyncio.create_task(flights.run("key", job))
    second = asyncio.create_task(flights.run("key", job))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    job.go.set()
    assert await second == "result 2"
