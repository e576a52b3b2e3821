"""What the API server says of a pod counts where the agent itself has said nothing yet."""

from msgspec.structs import replace

from pykubelet.models import core_v1 as core
from pykubelet.models.scalars import time_from_unix
from tests.unit.kubelet.report.pods import NOW, attempt, pod, runtime
from tests.unit.kubelet.report.status.test_decide import compute


def test_start_time_of_the_api_server_is_kept() -> None:
    known = replace(pod(), status=core.PodStatus(start_time=time_from_unix(NOW - 60)))
    said = core.PodStatus(phase="Pending")
    assert compute(known, runtime(attempt()), said).start_time == time_from_unix(NOW - 60)
    said = replace(said, start_time=time_from_unix(NOW - 30))
    assert compute(known, runtime(attempt()), said).start_time == time_from_unix(NOW - 30)


def test_terminal_phase_of_the_api_server_is_kept() -> None:
    known = replace(pod(), status=core.PodStatus(phase="Failed", reason="Evicted", message="low on memory"))
    status = compute(known, runtime(attempt()), core.PodStatus(phase="Running"))
    assert (status.phase, status.reason, status.message) == ("Failed", "Evicted", "low on memory")
