"""ImageService over its socket: codes, messages, fields."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from grpc import StatusCode

from pykubelet.base.units import MIB
from pykubelet.criserver.config import RegistryHost, RegistryTable
from pykubelet.criserver.images import ImageManager, limits, manifests
from pykubelet.criserver.images.image_types import ImageConfig, ImageRecord
from pykubelet.criserver.images.manifests import digest_of
from pykubelet.criserver.server.cri_calls.images import fitted, image_of
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.pb import runtime_v1_pb2_grpc as pb_grpc
from pykubelet.testing.ociimage import ImageSpec, pack
from pykubelet.testing.wait import until
from tests.unit.criserver.images.fakeregistry import FakeRegistry
from tests.unit.criserver.images.served import serve
from tests.unit.criserver.images.stores import Stores, import_file, open_stores
from tests.unit.criserver.images.world import World

NAME = "localhost/demo/app:1"


@pytest.fixture
async def registry() -> AsyncIterator[FakeRegistry]:
    async with FakeRegistry().run() as running:
        yield running


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    world = World(tmp_path / "world")
    return open_stores(tmp_path / "rooms", world.registry, frozenset({NAME}))


@pytest.fixture
async def service(stores: Stores, tmp_path: Path) -> "AsyncIterator[pb_grpc.ImageServiceAsyncStub]":
    options = (("grpc.default_authority", "localhost"),)
    async with (
        serve(stores.images, tmp_path) as socket,
        grpc.aio.insecure_channel(f"unix:{socket}", options) as channel,
    ):
        yield pb_grpc.ImageServiceStub(channel)


def spec(name: str) -> pb.ImageSpec:
    return pb.ImageSpec(image=name)


async def fails(work: Awaitable[object]) -> tuple[StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await work
    return failed.value.code(), failed.value.details() or ""


async def test_failed_pulls_have_codes_and_messages(
    service: "pb_grpc.ImageServiceAsyncStub", registry: FakeRegistry
) -> None:
    layer = b"no layer at all"
    registry.add_image("team/app:1", [layer], [digest_of(layer)])
    name = f"{registry.host}/team/app:1"

    async def pull(reference: str, **auth: str) -> tuple[StatusCode, str]:
        given = pb.AuthConfig(**auth) if auth else None
        return await fails(service.PullImage(pb.PullImageRequest(image=spec(reference), auth=given)))

    code, words = await pull(f"{registry.host}/team/app:2")
    assert code is StatusCode.NOT_FOUND and words.startswith("failed to resolve reference") and "team/app:2" in words
    code, words = await pull(name)
    assert code is StatusCode.INVALID_ARGUMENT and words.startswith(f"failed to pull image {name}")
    registry.basic = "alice:s3cret"
    for auth in ({}, {"username": "alice", "password": "guessed"}):
        code, words = await pull(name, **auth)
        assert code is StatusCode.UNAUTHENTICATED and registry.host in words and "guessed" not in words
    registry.basic, registry.failures = "", [403]
    assert (await pull(name))[0] is StatusCode.PERMISSION_DENIED
    registry.failures = [503] * 10
    code, words = await pull(name)
    assert code is StatusCode.UNKNOWN and words.startswith("RegistryUnavailable: failed to resolve reference")
    code, words = await pull("127.0.0.1:1/app:1")
    assert code is StatusCode.UNKNOWN and words.startswith("RegistryUnavailable") and "127.0.0.1:1/app:1" in words
    for reference in ("", "UPPER:1", "a b", "http://x/y", "a@sha256:1", "0" * 64):
        assert (await pull(reference))[0] is StatusCode.INVALID_ARGUMENT
    registry.failures = []
    registry.add_manifest("old:1", manifests.OUTDATED[0], b'{"schemaVersion": 1}')
    assert (await pull(f"{registry.host}/old:1"))[0] is StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize(
    ("user", "uid", "name"),
    [
        ("0", 0, ""),
        ("1000:5", 1000, ""),
        ("4294967296", 4294967296, ""),
        ("9223372036854775807", 2**63 - 1, ""),
        ("9223372036854775808", None, "9223372036854775808"),
        ("9999999999999999999", None, "9999999999999999999"),
        ("1" * 5000, None, "1" * 5000),
        ("\u0661", None, "\u0661"),
        ("app:app", None, "app"),
        ("", None, ""),
    ],
)
def test_hostile_image_user_does_not_break_the_list(user: str, uid: int | None, name: str) -> None:
    record = ImageRecord("sha256:1", (), (), 1, ImageConfig(user=user), (), "sha256:2")
    image = image_of(record)
    assert (image.uid.value if image.HasField("uid") else None, image.username) == (uid, name)


@pytest.mark.parametrize("user", ["u" * 4_000_000, "\ud800"])
async def test_stored_image_that_cannot_be_shown_spoils_no_list(
    service: "pb_grpc.ImageServiceAsyncStub", stores: Stores, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def record(name: str, user: str) -> ImageRecord:
        return ImageRecord(digest_of(name.encode()), (f"{name}:1",), (), 1, ImageConfig(user=user), (), digest_of(b""))

    images = [record("first", "app"), *(record(f"bad-{number}", user) for number in range(5)), record("last", "7")]
    monkeypatch.setattr(stores.images, "list", lambda: images)
    for _ in range(2):
        listed = (await service.ListImages(pb.ListImagesRequest())).images
        assert [image.repo_tags[0] for image in listed] == ["first:1", "last:1"]
        streamed = [image async for part in service.StreamImages(pb.StreamImagesRequest()) for image in part.images]
        assert streamed == list(listed)


def test_list_of_images_stays_below_what_clients_take() -> None:
    names = [f"registry.example/{'p' * 200}/{number}:1" for number in range(limits.MAX_NAMES)]
    images = [pb.Image(id=digest_of(b"%d" % n), repo_tags=names, repo_digests=names) for n in range(1000)]
    small = pb.Image(id=digest_of(b"small"), repo_tags=["a:1", "a:2"])
    listed = fitted([*images, small])
    assert pb.ListImagesResponse(images=listed).ByteSize() < 4 * MIB
    assert len(listed) == 1001 and listed[-1].repo_tags == ["a:1", "a:2"]
    assert all(image.id and len(image.repo_tags) == 1 for image in listed[:-1])
    crowd = fitted([pb.Image(id=digest_of(b""), repo_tags=names[:1]) for _ in range(20_000)])
    assert pb.ListImagesResponse(images=crowd).ByteSize() < 4 * MIB and len(crowd) == 20_000


@pytest.mark.root
async def test_list_status_filter_and_removal(
    service: "pb_grpc.ImageServiceAsyncStub", stores: Stores, tmp_path: Path
) -> None:
    for name, fields in ((NAME, {"user": "1000:5"}), ("localhost/demo/other:1", {"user": "app", "volumes": ("/v",)})):
        path = tmp_path / "image.tar"
        pack(replace(ImageSpec(name), **fields), path, os.uname().machine)
        await import_file(stores, path)
    listed = {image.repo_tags[0]: image for image in (await service.ListImages(pb.ListImagesRequest())).images}
    app, other = listed[NAME], listed["localhost/demo/other:1"]
    assert app.pinned and not other.pinned
    assert (app.uid.value, app.username, other.HasField("uid"), other.username) == (1000, "", False, "app")
    for wanted in (NAME, app.id, app.repo_digests[0]):
        found = await service.ListImages(pb.ListImagesRequest(filter=pb.ImageFilter(image=spec(wanted))))
        assert [image.id for image in found.images] == [app.id]
    streamed = [reply async for reply in service.StreamImages(pb.StreamImagesRequest())]
    assert [image.id for reply in streamed for image in reply.images] == [app.id, other.id]
    verbose = await service.ImageStatus(pb.ImageStatusRequest(image=spec(other.id[7:20]), verbose=True))
    info = json.loads(verbose.info["info"])
    assert verbose.image.id == other.id and list(info["imageSpec"]["config"]["Volumes"]) == ["/v"]
    assert not (await service.ImageStatus(pb.ImageStatusRequest(image=spec("none")))).HasField("image")
    usage = (await service.ImageFsInfo(pb.ImageFsInfoRequest())).image_filesystems[0]
    assert usage.used_bytes.value > app.size + other.size and usage.fs_id.mountpoint == str(tmp_path / "rooms")
    for _ in range(2):
        await service.RemoveImage(pb.RemoveImageRequest(image=spec(other.repo_digests[0])))
        await service.RemoveImage(pb.RemoveImageRequest(image=spec(app.id)))
    assert not (await service.ListImages(pb.ListImagesRequest())).images
    empty = (await service.ImageFsInfo(pb.ImageFsInfoRequest())).image_filesystems[0]
    assert empty.used_bytes.value == 0 == empty.inodes_used.value


async def test_images_are_found_by_id_prefix(service: "pb_grpc.ImageServiceAsyncStub", stores: Stores) -> None:
    images: ImageManager = stores.images
    assert images.status("abc") is None
    code, words = await fails(service.ImageStatus(pb.ImageStatusRequest()))
    assert code is StatusCode.INVALID_ARGUMENT and "reference" in words


async def test_client_that_disconnects_cancels_its_pull(
    service: "pb_grpc.ImageServiceAsyncStub", stores: Stores, registry: FakeRegistry
) -> None:
    registry.add_image("app:1", [bytes(100_000)], [digest_of(bytes(100_000))])
    registry.pause = asyncio.Event()
    call = service.PullImage(pb.PullImageRequest(image=spec(f"{registry.host}/app:1")))
    waiting = asyncio.ensure_future(call.wait_for_connection())
    await registry.halfway.wait()
    assert stores.images.running_pulls
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await until(lambda: not stores.images.running_pulls)
    registry.pause.set()
    await asyncio.wait({waiting})


def test_the_file_of_registries_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "registries.toml"
    table = RegistryTable(path, {"a": RegistryHost(plain_http=True), "b": RegistryHost()})
    assert set(table.hosts()) == {"a", "b"}
    path.write_text('[registries."docker.io"]\nmirrors = ["https://m"]\n[registries.b]\nskip_verify = true\n')
    hosts = table.hosts()
    assert hosts["docker.io"].mirrors == ("https://m",) and hosts["b"].skip_verify and hosts["a"].plain_http
    path.write_text('[registries.b]\nusername = "u"\npassword = "geheim"\n')
    os.utime(path, (1, 1))
    assert table.hosts()["b"].password == "geheim" and "geheim" not in repr(table.hosts())
    path.unlink()
    assert set(table.hosts()) == {"a", "b"}
