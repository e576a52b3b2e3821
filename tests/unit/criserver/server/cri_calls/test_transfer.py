"""ImageTransfer with misbehaving clients: one that stops, stalls or disconnects leaves nothing behind."""

import asyncio
import os
from collections.abc import AsyncIterable, AsyncIterator
from pathlib import Path

import grpc
import pytest

from pykubelet.base.errors import Invalid
from pykubelet.cli.client.image_client import ImageClient
from pykubelet.pb import images_v1_pb2 as transfer
from pykubelet.pb import images_v1_pb2_grpc as transfer_grpc
from pykubelet.testing.ociimage import ImageSpec, pack
from pykubelet.testing.wait import until
from tests.unit.criserver.images.served import serve
from tests.unit.criserver.images.stores import Stores, import_file, open_stores

NAME = "localhost/demo/app:1"


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    return open_stores(tmp_path / "rooms")


@pytest.fixture
def archive(tmp_path: Path) -> bytes:
    pack(ImageSpec(NAME, files={"/noise": os.urandom(5_000_000)}), tmp_path / "image.tar", os.uname().machine)
    return (tmp_path / "image.tar").read_bytes()


@pytest.fixture
async def service(stores: Stores, tmp_path: Path) -> "AsyncIterator[transfer_grpc.ImageTransferAsyncStub]":
    options = (("grpc.default_authority", "localhost"), ("grpc.max_receive_message_length", 16 << 20))
    async with (
        serve(stores.images, tmp_path) as socket,
        grpc.aio.insecure_channel(f"unix:{socket}", options) as channel,
    ):
        yield transfer_grpc.ImageTransferStub(channel)


async def settled(stores: Stores) -> None:
    """Wait until nothing is in progress, and assert that nothing is left."""
    ingest = stores.content.root / "ingest"
    await until(lambda: not (stores.images._working or stores.content.digests() or list(ingest.iterdir())))
    assert stores.images.list() == []


@pytest.mark.root
@pytest.mark.parametrize("sent", [0, 100, 700_000, 3_000_000])
async def test_interrupted_import_leaves_nothing(
    service: "transfer_grpc.ImageTransferAsyncStub", stores: Stores, archive: bytes, sent: int
) -> None:
    stalled = asyncio.Event()

    async def requests() -> AsyncIterator[transfer.ImportRequest]:
        for start in range(0, sent, 500_000):
            yield transfer.ImportRequest(data=archive[start : min(start + 500_000, sent)])
        stalled.set()
        await asyncio.Event().wait()

    call = service.Import(requests())
    reading = asyncio.ensure_future(_all(call))
    await stalled.wait()
    await until(lambda: stores.images._working or not sent)
    call.cancel()
    await asyncio.wait({reading})
    assert reading.cancelled() or reading.exception() is not None
    await settled(stores)


async def test_import_rejected_while_the_client_is_sending(stores: Stores, tmp_path: Path) -> None:
    """With the client of the command line; that of asyncio may lose the code of a call that ends while it sends."""
    async with serve(stores.images, tmp_path) as socket:
        with ImageClient(f"unix:{socket}") as client, pytest.raises(Invalid, match="not an image archive"):
            pieces = (b"no archive at all" * 60_000 for _ in range(60))
            await asyncio.to_thread(client.import_archive, pieces, (), lambda _: None)
        await settled(stores)


@pytest.mark.root
async def test_export_whose_client_stops_reading(
    service: "transfer_grpc.ImageTransferAsyncStub", stores: Stores, archive: bytes, tmp_path: Path
) -> None:
    await import_file(stores, tmp_path / "image.tar")
    call = service.Export(transfer.ExportRequest(images=[NAME]))
    assert await call.read()
    call.cancel()
    await until(lambda: not stores.images._working)
    replies = [reply async for reply in service.Export(transfer.ExportRequest(images=[NAME]))]
    assert sum(len(reply.data) for reply in replies) > 5_000_000
    for names in ([], ["none:1"]):
        with pytest.raises(grpc.aio.AioRpcError):
            await _all(service.Export(transfer.ExportRequest(images=names)))


async def test_pull_without_reference_is_invalid(service: "transfer_grpc.ImageTransferAsyncStub") -> None:
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await _all(service.Pull(transfer.PullRequest()))
    assert failed.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def _all(replies: AsyncIterable[object]) -> list[object]:
    return [reply async for reply in replies]
