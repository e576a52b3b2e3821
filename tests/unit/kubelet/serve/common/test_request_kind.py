import pytest

from pykubelet.kubelet.serve.common.plan.request_kind import RequestKind, request_kind


@pytest.mark.parametrize(
    ("pattern", "watch", "kind"),
    [
        ("/healthz", False, RequestKind.HEALTH),
        ("/healthz/{name}", False, RequestKind.HEALTH),
        ("/pykubelet/v1/healthz", False, RequestKind.HEALTH),
        ("/exec/{namespace}/{pod}/{container}", False, RequestKind.STREAM),
        ("/attach/{namespace}/{pod}/{uid}/{container}", False, RequestKind.STREAM),
        ("/portForward/{namespace}/{pod}", False, RequestKind.STREAM),
        ("/run/{namespace}/{pod}/{container}", False, RequestKind.COMMAND),
        ("/containerLogs/{namespace}/{pod}/{container}", False, RequestKind.STREAM),
        ("/logs/{path}", False, RequestKind.STREAM),
        ("/checkpoint/{namespace}/{pod}/{container}", False, RequestKind.COMMAND),
        ("/api/v1/namespaces/{namespace}/pods/{name}/log", False, RequestKind.STREAM),
        ("/api/v1/namespaces/{namespace}/pods/{name}/portforward", False, RequestKind.STREAM),
        ("/api/v1/pods", True, RequestKind.STREAM),
        ("/api/v1/pods", False, RequestKind.SHORT),
        ("/pods", True, RequestKind.SHORT),
        ("/healthzx", False, RequestKind.SHORT),
        ("/metrics/cadvisor", False, RequestKind.SHORT),
        ("/stats/summary", False, RequestKind.SHORT),
        ("/debug/pprof/{name}", False, RequestKind.SHORT),
        (None, True, RequestKind.SHORT),
    ],
)
def test_kind_of_a_request_by_its_route(pattern: str | None, watch: bool, kind: RequestKind) -> None:
    assert request_kind(pattern, watch=watch) is kind


@pytest.mark.parametrize(
    ("pattern", "kind"),
    [("/logs/", RequestKind.COMMAND), ("/logs/{path}", RequestKind.COMMAND), ("/pods", RequestKind.SHORT)],
)
def test_request_kind_of_a_log_query_is_command(pattern: str, kind: RequestKind) -> None:
    assert request_kind(pattern, log_query=True) is kind
