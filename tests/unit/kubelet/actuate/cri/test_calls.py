"""The table of CRI calls, compared with the proto contract."""

import pytest

from pykubelet.kubelet.actuate.cri import calls
from pykubelet.kubelet.actuate.cri.transport import StreamCall, UnaryCall
from pykubelet.pb import images_v1_pb2 as transfer
from pykubelet.pb import runtime_v1_pb2 as pb

_ALL = [value for value in vars(calls).values() if isinstance(value, UnaryCall | StreamCall)]
TABLE = [call for call in _ALL if call.path.startswith("/runtime.v1.")]
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


def test_calls_beside_cri_are_those_of_the_image_transfer_service() -> None:
    (service,) = transfer.DESCRIPTOR.services_by_name.values()
    methods = {f"/{service.full_name}/{method.name}": method for method in service.methods}
    extra = [call for call in _ALL if call not in TABLE]
    assert [call.path for call in extra] == ["/pykubelet.images.v1.ImageTransfer/ListPulls"]
    for call in extra:
        assert call.request.DESCRIPTOR is methods[call.path].input_type
        assert call.reply.DESCRIPTOR is methods[call.path].output_type


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
