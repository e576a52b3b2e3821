"""Memory of journal and history for 100 pods: ``python -m benchmarks.records``; needs no root and no runtime.

Each pod is admitted, started in the usual steps with the usual events, and restarted once. Events and timelines are
kept in any case; the memory of all recorders, less that of these two, is what journal and history add.
"""

import asyncio
import gc
import tempfile
import tracemalloc
from pathlib import Path
from typing import Final

from benchmarks.decisions import start_decisions
from pykubelet.base.clock import SystemClock
from pykubelet.kubelet.report.events import EventLog
from pykubelet.kubelet.report.explain import DecisionJournal
from pykubelet.kubelet.report.history import History, HistoryDeps, StartTimes
from pykubelet.kubelet.report.timeline import PodTimelines
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.reports.events import NORMAL
from pykubelet.kubelet.types.reports.status_changes import StatusChange
from pykubelet.kubelet.types.reports.timeline import Step
from pykubelet.models import core_v1 as core
from pykubelet.models.core_v1 import Pod, PodSpec
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.models.scalars import time_from_unix

PODS: Final = 100
_NOW: Final = 1.8e9
_STEPS: Final = (Step.QUEUED, Step.CGROUP, Step.VOLUMES, Step.SANDBOX)
_CONTAINER_STEPS: Final = (Step.PULL, Step.CREATE, Step.START)
_EVENTS: Final = (
    ("Pulled", 'Container image "docker.io/library/nginx:1.27" already present on machine'),
    ("Created", "Container created"),
    ("Started", "Container started"),
    ("BackOff", "Back-off restarting failed container main in pod"),
)


class _Recorders:
    """Events and timelines, and with ``whole`` also the journal and the history in a directory."""

    def __init__(self, directory: Path, *, whole: bool) -> None:
        clock = SystemClock()
        self.events = EventLog(clock=clock, node_name="node", find_pod=lambda uid: None)
        self.timelines, self.starts = PodTimelines(clock), StartTimes()
        telemetry = Telemetry(clock=clock, events=self.events, timeline=self.timelines, metrics=self)
        deps = HistoryDeps(
            directory=directory, events=self.events, timelines=self.timelines, starts=self.starts, telemetry=telemetry
        )
        self.journal = DecisionJournal(clock) if whole else None
        self.history = History(deps) if whole else None

    def history_failed(self) -> None:
        raise AssertionError("the history cannot be written")

    def start(self, number: int) -> None:
        """Record the start of a pod, and one restart of its container."""
        uid = PodUID(f"{number:08}-aaaa-bbbb-cccc-0123456789ab")
        spec = PodSpec(containers=(core.Container(name="main", image="nginx:1.27"),))
        pod = Pod(metadata=ObjectMeta(name=f"web-{number}", namespace="default", uid=uid), spec=spec)
        self.timelines.pod_seen(pod)
        for step in _STEPS:
            self.timelines.begin(uid, step)
            self.timelines.end(uid, step)
        for step in _CONTAINER_STEPS:
            self.timelines.begin(uid, step, "main")
            self.timelines.end(uid, step, "main")
        self.timelines.end(uid, Step.READY)
        for reason, message in _EVENTS:
            self.events.event(ref_of(pod), NORMAL, reason, message, container="main")
        if self.journal is not None:
            for decisions in start_decisions(pod):
                self.journal.synced(uid, decisions)
        if self.history is not None:
            self.starts.note(uid, _NOW)
            self.history.status_changed(StatusChange(pod, None, _status(number), 1))


def _status(number: int) -> core.PodStatus:
    ended = core.ContainerStateTerminated(
        exit_code=1, reason="Error", container_id=f"criserver://{number:064}", finished_at=time_from_unix(_NOW)
    )
    state = core.ContainerState(terminated=ended)
    status = core.ContainerStatus(name="main", ready=False, restart_count=1, last_state=state)
    return core.PodStatus(phase="Running", start_time=time_from_unix(_NOW), container_statuses=(status,))


async def kept_bytes(*, whole: bool) -> int:
    """Return the bytes that the recorders of 100 pods keep after all of it is written."""
    with tempfile.TemporaryDirectory() as home:
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        recorders = _Recorders(Path(home), whole=whole)
        for number in range(PODS):
            recorders.start(number)
        if recorders.history is not None:
            # A cancelled history writes what waits.
            writing = asyncio.create_task(recorders.history.run(lambda: None), name="history")
            await asyncio.sleep(0)
            writing.cancel()
            await asyncio.wait((writing,))
            assert any(Path(home).iterdir()), "nothing was written"
            del writing
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before


def main() -> None:
    """Print the figures."""
    tracemalloc.start()
    asyncio.run(kept_bytes(whole=True))  # what is made once, by imports and caches, is no memory of pods
    without, whole = asyncio.run(kept_bytes(whole=False)), asyncio.run(kept_bytes(whole=True))
    print(f"events and timelines of {PODS} pods: {without / 1024:.0f} KiB")
    print(f"journal and history of {PODS} pods: {(whole - without) / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
