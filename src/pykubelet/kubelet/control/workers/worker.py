"""The task of one pod: take the step that the machine asks for, then wait for news or for a known time."""

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import replace

from pykubelet.kubelet.control.workers import decide, steps
from pykubelet.kubelet.control.workers.ports import WorkerDeps
from pykubelet.kubelet.control.workers.types import Phase, StepResult, WorkerState
from pykubelet.kubelet.types.timeline import Step

_log = logging.getLogger(__name__)


class PodWorker:
    """One pod's worker. News arrive by :meth:`change` and :meth:`poke`; both return at once.

    The mailbox is the state itself: however many updates come during a step, the next step sees the last one.
    """

    def __init__(self, state: WorkerState, deps: WorkerDeps, set_timer: Callable[[float], None]) -> None:
        self.state = state
        self._deps = deps
        self._set_timer = set_timer
        self._news = asyncio.Event()
        self._step: tuple[WorkerState, asyncio.Timeout] | None = None
        self._broken_off = False
        self._made_at = deps.clock.monotonic()
        self._steps_taken = 0

    def change(self, state: WorkerState) -> None:
        """Replace the worker's state; a step that has lost its sense is broken off."""
        self.state = state
        if self._step and not self._broken_off and decide.interrupts(self._step[0], state):
            self._broken_off = True
            self._step[1].reschedule(asyncio.get_running_loop().time())
        self._news.set()

    def poke(self) -> None:
        """Something may have changed in the runtime: look again soon."""
        self._news.set()

    async def run(self) -> None:
        """Live the pod's life; returns when nothing of it is left."""
        self._deps.timeline.end(self.state.ref.uid, Step.QUEUED)
        self._deps.meter.worker_started(self._deps.clock.monotonic() - self._made_at)
        while not decide.is_gone(self.state):
            self._news.clear()
            phase = decide.next_phase(self.state)
            if phase is None:
                await self._news.wait()
                continue
            self.state = replace(self.state, phase=phase, done=False)
            result = await self._take(phase)
            if result is None:
                continue
            self.state = decide.stepped(self.state, phase, result)
            self._note(phase, result)
            if result.again or result.finished or self.state.phase is not phase:
                continue
            self._set_timer(decide.retry_at(self.state, result, self._deps.clock.monotonic(), random.random()))
            await self._news.wait()

    def _note(self, phase: Phase, result: StepResult) -> None:
        """Remember what the step came to, for people who ask why."""
        if result == StepResult():
            return
        failures = "; ".join(f"{f.action} {f.target}: {f.reason}: {f.message}" for f in result.failures)
        fields = {"again": result.again, "finished": result.finished, "next": self.state.phase, "failures": failures}
        told = {name: value for name, value in fields.items() if value}
        self._deps.journal.add(self.state.ref.uid, self._deps.clock.now(), f"step {phase} taken", **told)

    async def _take(self, phase: Phase) -> StepResult | None:
        """The step's result; None when it was broken off because the pod's fate changed."""
        begun = self._deps.clock.monotonic()
        try:
            async with asyncio.timeout(None) as limit:
                self._step, self._broken_off = (self.state, limit), False
                return await steps.take(phase, self.state, self._deps)
        except TimeoutError:
            if not limit.expired():
                raise
            _log.debug("step broken off", extra={"pod": self.state.ref, "phase": phase})
            return None
        finally:
            self._step = None
            operation = "terminate" if phase is not Phase.SYNC else "sync" if self._steps_taken else "create"
            self._steps_taken += 1
            self._deps.meter.worker_duration(operation, self._deps.clock.monotonic() - begun)
