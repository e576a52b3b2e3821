"""gRPC codes and messages of errors."""

from pathlib import Path

import grpc
import pytest
from grpc import StatusCode

from pykubelet.base.errors import Conflict, Invalid, NotFound, Transient
from pykubelet.criserver.images.image_types import RegistryUnavailable, SignatureRejected, Unauthenticated
from pykubelet.criserver.server.errors import bounded, status_of
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.pb import runtime_v1_pb2_grpc as pb_grpc
from tests.unit.criserver.images.served import serve
from tests.unit.criserver.images.world import World


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotFound("x"), StatusCode.NOT_FOUND),
        (Conflict("x"), StatusCode.ALREADY_EXISTS),
        (Unauthenticated("x"), StatusCode.UNAUTHENTICATED),
        (RegistryUnavailable("x"), StatusCode.UNKNOWN),
        (SignatureRejected("x"), StatusCode.UNKNOWN),
        (ExceptionGroup("several", [ExceptionGroup("inner", [Transient("x")]), Invalid("y")]), StatusCode.UNKNOWN),
        (ZeroDivisionError("x"), StatusCode.INTERNAL),
    ],
)
def test_errors_map_to_grpc_codes(error: Exception, code: StatusCode) -> None:
    assert status_of(error, "Call")[0] is code


def test_short_messages_are_unchanged() -> None:
    words = "container ü: cannot be started: " + "x" * 5000
    assert bounded(words) == words


def test_file_names_that_are_not_utf8_are_escaped() -> None:
    assert bounded("cannot open /a\udcffb") == "cannot open /a\\udcffb"


@pytest.mark.parametrize("name", ["X" * 20_000, "中" * 20_000, "%" * 20_000, "\ud800" * 20_000])
def test_long_messages_keep_both_ends(name: str) -> None:
    said = bounded(f"begin {name} end")
    assert said.startswith("begin ") and said.endswith(" end")
    assert len(said) < 2100


@pytest.mark.parametrize("name", ["X" * 100_000, "中" * 100_000, "%" * 100_000])
async def test_oversized_request_gets_its_own_error(tmp_path: Path, name: str) -> None:
    options = [("grpc.default_authority", "localhost")]
    async with (
        serve(World(tmp_path).images, tmp_path) as path,
        grpc.aio.insecure_channel(f"unix:{path}", options=options) as channel,
    ):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await pb_grpc.ImageServiceStub(channel).PullImage(pb.PullImageRequest(image=pb.ImageSpec(image=name)))
    assert refused.value.code() is StatusCode.INVALID_ARGUMENT
    assert (refused.value.details() or "").startswith("image reference ")
