"""States of a worker of one pod."""

from datetime import UTC, datetime

from msgspec.structs import replace

from pykubelet.kubelet.control.workers.worker_types import Phase, WorkerState
from pykubelet.kubelet.types.ids import PodRef, PodUID
from pykubelet.kubelet.types.outcome import Failure, SyncAction
from pykubelet.models.core_v1 import Pod, PodSpec
from pykubelet.models.meta_v1 import ObjectMeta

REF = PodRef("default", "web", PodUID("u1"))
HARD = Failure(SyncAction.START_CONTAINER, "c", "RunContainerError", "no")


def pod(deleted: bool = False, grace: int | None = None) -> Pod:
    stamp = datetime(2026, 1, 1, tzinfo=UTC) if deleted else None
    meta = ObjectMeta(
        name="web", namespace="default", uid="u1", deletion_timestamp=stamp, deletion_grace_period_seconds=grace
    )
    return Pod(metadata=meta, spec=PodSpec(termination_grace_period_seconds=30))


def state(phase: Phase = Phase.SYNC, **changes: object) -> WorkerState:
    return replace(WorkerState(REF, pod(), phase=phase), **changes)
