"""The table of CRI calls, compared with the proto contract."""

import pytest

from pykubelet.kubelet.actuate.cri import calls
from pykubelet.kubelet.actuate.cri.transport import StreamCall, UnaryCall
from pykubelet.pb import runtime_v1_pb2 as pb

TABLE = [value for value in vars(calls).values() if isinstance(value, UnaryCall | StreamCall)]
METHODS = [
    (f"/{service.full_name}/{method.name}", method)
    for service in pb.DESCRIPTOR.services_by_name.values()
    for method in service.methods
]


def test_the_contract_has_the_41_calls_of_kubernetes_1_36() -> None:
    services = pb.DESCRIPTOR.services_by_name
    assert {name: len(service.methods) for name, service in services.items()} == {
        "RuntimeService": 35,
        "ImageService": 6,
    }


def test_every_call_stands_in_the_table_once() -> None:
    assert sorted(call.path for call in TABLE) == sorted(path for path, _ in METHODS)


@pytest.mark.parametrize("path", [path for path, _ in METHODS])
def test_row_agrees_with_the_contract(path: str) -> None:
    method = dict(METHODS)[path]
    (call,) = [call for call in TABLE if call.path == path]
    assert call.request.DESCRIPTOR.full_name == method.input_type.full_name
    assert call.reply.DESCRIPTOR.full_name == method.output_type.full_name
    assert isinstance(call, StreamCall) == method.server_streaming


def test_streamed_lists_are_counted_as_the_lists_they_replace() -> None:
    unary = {call.operation for call in TABLE if isinstance(call, UnaryCall)}
    lists = {call.operation for call in TABLE if isinstance(call, StreamCall)} - {"get_container_events"}
    assert len(lists) == 6
    assert lists <= unary
