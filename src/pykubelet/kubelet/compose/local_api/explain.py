"""Composition of explanations: what the stages know of a pod now, and the journal of their decisions."""

from pykubelet.kubelet.compose.recorders import Recorders
from pykubelet.kubelet.control.workers import PodWorkers
from pykubelet.kubelet.observe.probes import ProbeManager
from pykubelet.kubelet.report.explain import Situation, explain
from pykubelet.kubelet.serve.local_api import PodsView
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.reports.explain_views import ExplainView


class Explanations:
    """Explains pods, for the local API."""

    def __init__(self, *, pods: PodsView, workers: PodWorkers, probes: ProbeManager, recorders: Recorders) -> None:
        self._pods = pods
        self._workers = workers
        self._probes = probes
        self._recorders = recorders

    def __call__(self, uid: PodUID) -> ExplainView | None:
        """Return why the pod is in its state; None: it is unknown."""
        pod = self._pods.get(uid)
        if pod is None:
            return None
        state, clock = self._workers.state(uid), self._recorders.clock
        return explain(
            Situation(
                pod=pod,
                worker=str(state.phase) if state is not None else "",
                failures=state.failures if state is not None else (),
                next_sync=self._workers.next_sync(uid),
                probes=self._probes.reports(uid),
                timeline=self._recorders.timelines.view(uid),
                journal=self._recorders.journal.of(uid),
                monotonic=clock.monotonic(),
            )
        )
