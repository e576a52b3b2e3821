"""The API server's status counts where the agent itself has not reported yet."""

from msgspec.structs import replace

from pykubelet.kubelet.report.status.plan.pod_status import disruption_target
from pykubelet.models import core_v1 as core
from pykubelet.models.scalars import time_from_unix
from tests.unit.kubelet.report.pods import NOW, attempt, pod, runtime
from tests.unit.kubelet.report.status.build import compute


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


def test_conditions_of_others_stay_beside_a_disruption() -> None:
    gate, old = core.PodCondition(type="example.com/gate", status="True"), disruption_target("Evicted", "before")
    assert old is not None
    known = replace(pod(), status=core.PodStatus(conditions=(gate, old)))
    status = compute(known, runtime(attempt()), disruption=disruption_target("Evicted", "now"))
    found = [(each.type, each.message) for each in status.conditions if each.type in (gate.type, old.type)]
    assert found == [("example.com/gate", ""), ("DisruptionTarget", "now")]


def test_pod_on_the_network_of_a_node_with_many_addresses_gains_only_the_second() -> None:
    known = replace(pod(), spec=replace(pod().spec, host_network=True))
    said = core.PodStatus(pod_ips=(core.PodIP(ip="192.0.2.9"),))
    hosts = ("192.0.2.1", "2001:db8::1", "2001:db8::2")
    status = compute(known, runtime(attempt()), said, host_ips=hosts)
    assert [each.ip for each in status.pod_ips] == ["192.0.2.9", "2001:db8::1"]
