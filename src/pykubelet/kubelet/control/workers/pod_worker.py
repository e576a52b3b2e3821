"""The task of one pod: takes the step that the state machine names, then waits for an event or a known time."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from msgspec.structs import replace

from pykubelet.base import tracing
from pykubelet.base.transition_table import Life
from pykubelet.base.units import Seconds
from pykubelet.kubelet.control.workers.plan import lifecycle
from pykubelet.kubelet.control.workers.plan.decisions import change_decisions, step_decisions
from pykubelet.kubelet.control.workers.worker_interfaces import Meter
from pykubelet.kubelet.control.workers.worker_types import Phase, StepResult, WorkerState
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.ids import trace_attributes
from pykubelet.kubelet.types.reports.decisions import DecisionRecorder
from pykubelet.kubelet.types.reports.timeline import Step

_log = logging.getLogger(__name__)
_SPANS: Final = {
    Phase.SYNC: "syncPod",
    Phase.TERMINATING: "syncTerminatingPod",
    Phase.TERMINATED: "syncTerminatedPod",
    Phase.REMOVED: "removePod",
}

_CREATE, _UPDATE, _SYNC = "create", "update", "sync"
_OPERATIONS: Final = {Phase.TERMINATING: "kill", Phase.TERMINATED: "terminated"}
"""Label values of the metric of steps, which are upstream's: there a removal is no step of a worker."""

TakeStep: TypeAlias = Callable[[Phase, WorkerState], Awaitable[StepResult]]
"""Takes the step of a phase; returns expected errors in the result (`PodSteps.take`)."""


class PodWorker:
    """Worker of one pod. Events arrive by :meth:`change` and :meth:`poke`; both return at once.

    The mailbox is the state itself: however many updates arrive during a step, the next step sees the last one.
    """

    def __init__(
        self,
        state: WorkerState,
        *,
        take_step: TakeStep,
        set_timer: Callable[[float], None],
        journal: DecisionRecorder,
        telemetry: Telemetry[Meter],
        rand: Callable[[], float] = random.random,
    ) -> None:
        """``set_timer`` gets the monotonic time at which the worker is to be woken."""
        self._state = state
        self._take_step = take_step
        self._set_timer = set_timer
        self._journal = journal
        self._telemetry = telemetry
        self._rand = rand
        self._clock = telemetry.clock
        self._life = Life(lifecycle.LIFE_CYCLE, str(state.ref), phase=state.phase, monotonic=self._clock.monotonic)
        self._changed = asyncio.Event()
        self._step: tuple[WorkerState, asyncio.Timeout] | None = None
        self._interrupted = False
        self._created_at = self._clock.monotonic()
        self._operation = _CREATE
        """The label value of the next step of the phase SYNC."""

    def change(self, state: WorkerState) -> None:
        """Replace the worker's state; a running step that the new state makes obsolete is cancelled.

        Permanent, with the worker's history: the phase cannot follow the present one; nothing was changed.
        """
        before = self.state
        self._enter(state)
        self._journal.add(state.ref.uid, change_decisions(before, state))
        if self._operation == _SYNC and state.pod is not before.pod:
            self._operation = _UPDATE
        if self._step and not self._interrupted and lifecycle.interrupts(self._step[0], state):
            self._interrupted = True
            self._step[1].reschedule(asyncio.get_running_loop().time())
        self._changed.set()

    @property
    def state(self) -> WorkerState:
        """State of the worker and its next task."""
        return self._state

    def poke(self) -> None:
        """Wake the worker: something may have changed in the runtime."""
        self._changed.set()

    async def run(self) -> None:
        """Take steps until the pod is removed."""
        self._telemetry.timeline.end(self.state.ref.uid, Step.QUEUED)
        self._telemetry.metrics.worker_started(self._clock.monotonic() - self._created_at)
        while not lifecycle.is_gone(self.state):
            self._changed.clear()
            phase = lifecycle.next_phase(self.state)
            if phase is None:
                await self._changed.wait()
                continue
            self._enter(replace(self.state, phase=phase, done=False))
            result = await self._take(phase)
            if result is None:
                continue
            self._enter(lifecycle.stepped(self.state, phase, result))
            self._record_step(phase, result)
            if result.again or result.finished or self.state.phase is not phase:
                continue
            self._set_timer(lifecycle.retry_at(self.state, result, self._clock.monotonic(), self._rand()))
            await self._changed.wait()

    def _enter(self, state: WorkerState) -> None:
        if state.phase is not self._state.phase:
            self._life.enter(state.phase)
        self._state = state

    def _record_step(self, phase: Phase, result: StepResult) -> None:
        """Add the step's decisions to the journal, which `explain` shows."""
        decisions = step_decisions(phase, result, self.state)
        record = self._journal.synced if phase is Phase.SYNC else self._journal.add
        record(self.state.ref.uid, decisions)

    async def _take(self, phase: Phase) -> StepResult | None:
        """Take a step and return its result; None: it was cancelled because the worker's state changed."""
        begun = self._clock.monotonic()
        if phase is not Phase.SYNC:
            tracing.end_group(self.state.ref.uid)
        try:
            async with asyncio.timeout(None) as limit:
                self._step, self._interrupted = (self.state, limit), False
                with tracing.span(_SPANS[phase], trace_attributes(self.state.ref), group=self.state.ref.uid):
                    result = await self._take_step(phase, self.state)
                    if result.failures:
                        tracing.fail("; ".join(failure.message for failure in result.failures))
                    return result
        except TimeoutError:
            if not limit.expired():
                raise
            _log.debug("pod worker: step cancelled: the pod changed", extra={"pod": self.state.ref, "phase": phase})
            return None
        finally:
            self._step = None
            self._measure(phase, self._clock.monotonic() - begun)

    def _measure(self, phase: Phase, seconds: Seconds) -> None:
        operation = self._operation if phase is Phase.SYNC else _OPERATIONS.get(phase)
        self._operation = _SYNC
        if operation is not None:
            self._telemetry.metrics.worker_duration(operation, seconds)
