import pytest

from pykubelet.kubelet.report.server.decide_kind import Kind, request_kind


@pytest.mark.parametrize(
    ("pattern", "watch", "kind"),
    [
        ("/healthz", False, Kind.HEALTH),
        ("/healthz/{name}", False, Kind.HEALTH),
        ("/pykubelet/v1/healthz", False, Kind.HEALTH),
        ("/exec/{namespace}/{pod}/{container}", False, Kind.STREAM),
        ("/attach/{namespace}/{pod}/{uid}/{container}", False, Kind.STREAM),
        ("/portForward/{namespace}/{pod}", False, Kind.STREAM),
        ("/run/{namespace}/{pod}/{container}", False, Kind.COMMAND),
        ("/containerLogs/{namespace}/{pod}/{container}", False, Kind.STREAM),
        ("/logs/{path}", False, Kind.STREAM),
        ("/checkpoint/{namespace}/{pod}/{container}", False, Kind.COMMAND),
        ("/api/v1/namespaces/{namespace}/pods/{name}/log", False, Kind.STREAM),
        ("/api/v1/namespaces/{namespace}/pods/{name}/portforward", False, Kind.STREAM),
        ("/api/v1/pods", True, Kind.STREAM),
        ("/api/v1/pods", False, Kind.SHORT),
        ("/pods", True, Kind.SHORT),
        ("/healthzx", False, Kind.SHORT),
        ("/metrics/cadvisor", False, Kind.SHORT),
        ("/stats/summary", False, Kind.SHORT),
        ("/debug/pprof/{name}", False, Kind.SHORT),
        (None, True, Kind.SHORT),
    ],
)
def test_kind_of_a_request_by_its_route(pattern: str | None, watch: bool, kind: Kind) -> None:
    assert request_kind(pattern, watch=watch) is kind


@pytest.mark.parametrize(
    ("pattern", "kind"), [("/logs/", Kind.COMMAND), ("/logs/{path}", Kind.COMMAND), ("/pods", Kind.SHORT)]
)
def test_kind_of_a_log_query(pattern: str, kind: Kind) -> None:
    assert request_kind(pattern, log_query=True) is kind
