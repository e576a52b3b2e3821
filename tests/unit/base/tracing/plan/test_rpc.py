"""Names of the spans of calls, and the trace in a call's metadata."""

from pykubelet.base.tracing.plan.rpc import rpc_span, trace_headers


def test_span_of_a_call_names_service_and_method() -> None:
    name, attributes = rpc_span("runtime.v1.RuntimeService", "RunPodSandbox")
    assert name == "runtime.v1.RuntimeService/RunPodSandbox"
    assert attributes["rpc.system"] == "grpc"
    assert (attributes["rpc.service"], attributes["rpc.method"]) == ("runtime.v1.RuntimeService", "RunPodSandbox")


def test_only_the_trace_is_taken_from_the_metadata() -> None:
    metadata: list[tuple[str, str | bytes]] = [
        ("user-agent", "x"),
        ("traceparent", "00-a-b-01"),
        ("tracestate", "k=v"),
        ("traceparent", b"\xff"),
    ]
    assert trace_headers(metadata) == {"traceparent": "00-a-b-01", "tracestate": "k=v"}
