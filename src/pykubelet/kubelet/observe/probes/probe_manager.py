"""`ProbeManager`: the workers of all probes, by container id, and their conclusions.

The first probe runs

* for a container that has just been started, after its ``initialDelaySeconds``;
* for containers that ran before the agent was (re)started, at once but one after the other, 10 ms apart. The Go kubelet
  waits a random part of each probe's period instead, which spreads the load no better and keeps pods unready for
  seconds.

Liveness and readiness probes begin when the startup probe has succeeded, not at their next period. A readiness probe
that fails is repeated when the pod's worker syncs the pod, at most once a second.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Mapping
from contextvars import Context

from pykubelet.base.concurrency.supervise import RestartPolicy, supervise
from pykubelet.base.event_times import EventTimes
from pykubelet.base.units import Seconds
from pykubelet.kubelet.observe.probes.plan import probe_rules
from pykubelet.kubelet.observe.probes.probe_interfaces import ProbeDeps
from pykubelet.kubelet.observe.probes.probe_types import ProbeKey, ProbeTarget
from pykubelet.kubelet.observe.probes.probe_worker import ProbeWorker
from pykubelet.kubelet.types.ids import ContainerID, PodUID
from pykubelet.kubelet.types.probes import ContainerProbes, ProbeReport, ProbeResult, ProbeType, ProbeUpdate
from pykubelet.kubelet.types.runtime import PodRuntimeStatus
from pykubelet.models.core_v1 import Pod

_log = logging.getLogger(__name__)
_RESTART = RestartPolicy(initial=1.0, maximum=60.0)
_INHERITED_GAP: Seconds = 0.01
_MIN_REPEAT: Seconds = 1.0


class ProbeManager:
    """The workers of all probes. All methods but `run` return at once; call them from the loop's thread."""

    def __init__(self, deps: ProbeDeps) -> None:
        self._deps = deps
        self._workers: dict[ProbeKey, ProbeWorker] = {}
        self._of_pod: dict[PodUID, set[ProbeKey]] = defaultdict(set)
        self._stopping: set[PodUID] = set()
        self._started_at = deps.telemetry.clock.monotonic()
        self._event_times = EventTimes(deps.telemetry.clock)
        self._next_inherited: Seconds = deps.telemetry.clock.monotonic()
        self._group: asyncio.TaskGroup | None = None
        self._ready: list[ProbeWorker] = []
        """Workers that are started by `run`."""

    async def run(self) -> None:
        """Probe until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for worker in self._ready:
                    self._spawn(worker)
                self._ready.clear()
                await asyncio.Event().wait()
        finally:
            self._group = None
            await self._deps.prober.close()

    def sync_pod(self, pod: Pod, status: PodRuntimeStatus) -> None:
        """Start probes of running containers, stop those of others. `status` must be newer than in the last call."""
        wanted = probe_rules.targets(pod, status, self._deps.host_ips())
        for key in self._of_pod[status.uid] - wanted.keys():
            self._drop(status.uid, key)
        for key, target in wanted.items():
            if worker := self._workers.get(key):
                worker.target = target
                self._probe_soon(worker)
            elif status.uid not in self._stopping:
                self._add(status.uid, target)
        if not self._of_pod[status.uid]:
            del self._of_pod[status.uid]

    def results(self, status: PodRuntimeStatus) -> Mapping[ContainerID, ContainerProbes]:
        """Return the current conclusions, by the ids of the containers that are probed."""
        found: dict[ContainerID, ContainerProbes] = {}
        for container_id in {key.container_id for key in self._of_pod.get(status.uid, ())}:
            found[container_id] = ContainerProbes(
                startup=self._conclusion(container_id, ProbeType.STARTUP),
                liveness=self._conclusion(container_id, ProbeType.LIVENESS),
                readiness=self._conclusion(container_id, ProbeType.READINESS),
            )
        return found

    def reports(self, uid: PodUID) -> tuple[ProbeReport, ...]:
        """Return the states of the pod's probes, by container and type."""
        found = [self._workers[key].report() for key in self._of_pod.get(uid, ())]
        return tuple(sorted(found, key=lambda each: (each.container, each.probe_type)))

    def stop_all_but_readiness(self, uid: PodUID) -> None:
        """Stop liveness and startup probes of a pod that is being stopped, whose containers end on purpose.

        Readiness probes continue, since the pod may still serve. Conclusions stay, and no new container is probed.
        """
        self._stopping.add(uid)
        for key in self._of_pod.get(uid, ()):
            if key.probe_type is not ProbeType.READINESS:
                _cancel(self._workers[key])

    def remove_pod(self, uid: PodUID) -> None:
        """Stop probing the pod and forget it."""
        for key in tuple(self._of_pod.get(uid, ())):
            self._drop(uid, key)
        self._of_pod.pop(uid, None)
        self._stopping.discard(uid)

    # -- one worker

    def _add(self, uid: PodUID, target: ProbeTarget) -> None:
        clock = self._deps.telemetry.clock
        started = self._started(target)
        inherited = probe_rules.is_inherited(started, self._started_at)
        state = probe_rules.initial_state(target, inherited=inherited)
        worker = ProbeWorker(
            target, state, prober=self._deps.prober, telemetry=self._deps.telemetry, concluded=self._concluded
        )
        worker.first_delay = probe_rules.first_delay(target, started, clock.monotonic())
        if inherited:
            slot = max(self._next_inherited, clock.monotonic())
            self._next_inherited = slot + _INHERITED_GAP
            worker.first_delay = max(worker.first_delay, slot - clock.monotonic())
        self._workers[target.key] = worker
        self._of_pod[uid].add(target.key)
        if target.probe_type is ProbeType.STARTUP or self._has_started(target):
            self._start(worker)

    def _started(self, target: ProbeTarget) -> Seconds:
        """Return the monotonic time of the container's start, as computed when it was first seen."""
        return self._event_times.monotonic(target.container_id, target.started_at)

    def _has_started(self, target: ProbeTarget) -> bool:
        """Whether the container has no startup probe, or it has succeeded, so that the other probes may begin."""
        if target.container.startup_probe is None:
            return True
        return self._conclusion(target.container_id, ProbeType.STARTUP) is ProbeResult.SUCCESS

    def _start(self, worker: ProbeWorker) -> None:
        if self._group is None:
            self._ready.append(worker)
        else:
            self._spawn(worker)

    def _spawn(self, worker: ProbeWorker) -> None:
        target = worker.target
        given_up = target.ref.uid in self._stopping and target.probe_type is not ProbeType.READINESS
        if self._group is None or given_up or self._workers.get(target.key) is not worker:
            return
        name = f"{target.probe_type} probe {target.ref} {target.container.name}"
        work = supervise("probes", name, worker.run, clock=self._deps.telemetry.clock, policy=_RESTART)
        # A context of its own: the probes are no part of the sync that begins them, nor of its trace.
        worker.task = self._group.create_task(work, name=name, context=Context())

    def _probe_soon(self, worker: ProbeWorker) -> None:
        """Repeat the readiness probe of a container that is not ready at once, since the pod has changed."""
        if worker.target.probe_type is not ProbeType.READINESS or worker.idle_since is None:
            return
        rested = self._deps.telemetry.clock.monotonic() - worker.idle_since >= _MIN_REPEAT
        if rested and worker.state.conclusion is not ProbeResult.SUCCESS and worker.task is not None:
            _cancel(worker)
            worker.idle_since = None
            self._start(worker)

    def _drop(self, uid: PodUID, key: ProbeKey) -> None:
        worker = self._workers.pop(key)
        _cancel(worker)
        self._of_pod[uid].discard(key)

    def _concluded(self, worker: ProbeWorker) -> None:
        target, conclusion = worker.target, worker.state.conclusion
        assert conclusion is not None, "a changed conclusion is never unknown"
        fields = {"pod": str(target.ref), "container": target.container.name, "probe": target.probe_type}
        _log.info("probe: result changed", extra=fields | {"result": conclusion})
        if target.probe_type is ProbeType.STARTUP and conclusion is ProbeResult.SUCCESS:
            self._start_gated(target)
        self._deps.on_change(
            ProbeUpdate(
                target.ref.uid,
                target.container_id,
                target.probe_type,
                conclusion,
                target.container.name,
                worker.last_seen.message if worker.last_seen is not None else "",
            )
        )

    def _start_gated(self, startup: ProbeTarget) -> None:
        now = self._deps.telemetry.clock.monotonic()
        for probe_type in (ProbeType.LIVENESS, ProbeType.READINESS):
            worker = self._workers.get(ProbeKey(startup.container_id, probe_type))
            if worker is not None and worker.task is None:
                worker.first_delay = probe_rules.first_delay(worker.target, self._started(startup), now)
                self._start(worker)

    def _conclusion(self, container_id: ContainerID, probe_type: ProbeType) -> ProbeResult | None:
        worker = self._workers.get(ProbeKey(container_id, probe_type))
        return worker.state.conclusion if worker else None


def _cancel(worker: ProbeWorker) -> None:
    if worker.task is not None:
        worker.task.cancel()
