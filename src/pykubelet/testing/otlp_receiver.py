"""A collector of traces for tests: takes OTLP over gRPC, and appends each span as a line of JSON to a file.

``python -m pykubelet.testing.otlp_receiver PORT FILE``; it prints ``ready`` when it listens, and ends with SIGTERM.
"""

import asyncio
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Status

_METHOD = "opentelemetry.proto.collector.trace.v1.TraceService"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedSpan:
    """A span as it was received; ids are hexadecimal."""

    name: str
    service: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, str]
    error: str
    """The description of its status, if that is an error."""
    begun: int
    ended: int

    @property
    def pod(self) -> str:
        """The pod that it is about, as ``namespace/name``; empty: none."""
        return self.attributes.get("k8s.pod", "")


def received(file: Path) -> list[ReceivedSpan]:
    """Read the spans that were received so far."""
    lines = file.read_text().splitlines() if file.exists() else []
    return [ReceivedSpan(**json.loads(line)) for line in lines]


def _attributes(pairs: Iterable[KeyValue]) -> dict[str, str]:
    return {pair.key: pair.value.string_value for pair in pairs}


def _spans(request: service.ExportTraceServiceRequest) -> Iterator[dict[str, object]]:
    for resource in request.resource_spans:
        name = _attributes(resource.resource.attributes).get("service.name", "")
        for scope in resource.scope_spans:
            for span in scope.spans:
                failed = span.status.code == Status.STATUS_CODE_ERROR
                yield {
                    "name": span.name,
                    "service": name,
                    "trace": span.trace_id.hex(),
                    "id": span.span_id.hex(),
                    "parent": span.parent_span_id.hex(),
                    "attributes": _attributes(span.attributes),
                    "error": span.status.message or "error" if failed else "",
                    "begun": span.start_time_unix_nano,
                    "ended": span.end_time_unix_nano,
                }


async def _serve(port: int, file: Path) -> None:
    async def export(request: service.ExportTraceServiceRequest, context: object) -> service.ExportTraceServiceResponse:
        with file.open("a") as out:
            out.writelines(f"{json.dumps(span)}\n" for span in _spans(request))
        return service.ExportTraceServiceResponse()

    handler = grpc.unary_unary_rpc_method_handler(
        export,
        service.ExportTraceServiceRequest.FromString,
        service.ExportTraceServiceResponse.SerializeToString,
    )
    server = grpc.aio.server()
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(_METHOD, {"Export": handler})])
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    print("ready", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), Path(sys.argv[2])))
