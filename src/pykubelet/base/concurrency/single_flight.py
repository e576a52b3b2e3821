"""Single flight: concurrent callers with the same key share one run of a job."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


class _Flight(Generic[T]):
    __slots__ = ("error", "landed", "results")

    def __init__(self) -> None:
        self.landed = asyncio.Event()
        self.results: list[T] = []
        """The result; empty while the job runs, and if it was cancelled."""
        self.error: Exception | None = None


class SingleFlight(Generic[K, T]):
    """The jobs in progress, by key.

    The first caller runs the job. If it is cancelled, a waiting caller runs its own, so that the end of one caller
    does not fail another.
    """

    def __init__(self) -> None:
        self._flights: dict[K, _Flight[T]] = {}

    async def run(self, key: K, job: Callable[[], Awaitable[T]]) -> T:
        """Run the job, or wait for the run in progress. All callers get its result, or the exception that it raised."""
        while (flight := self._flights.get(key)) is not None:
            await flight.landed.wait()
            if flight.error is not None:
                raise flight.error
            if flight.results:
                return flight.results[0]
        flight = self._flights[key] = _Flight()
        try:
            result = await job()
            flight.results.append(result)
        except Exception as error:
            flight.error = error
            raise
        finally:
            del self._flights[key]
            flight.landed.set()
        return result
