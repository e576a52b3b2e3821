"""``pykubelet image`` with a runtime that has CRI only, as containerd."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from click.testing import CliRunner, Result

from pykubelet.base.errors import Unsupported
from pykubelet.cli.app import cli
from pykubelet.criserver.server.call_table import Calls
from pykubelet.pb import runtime_v1_pb2 as pb

_A, _B, _C = (f"sha256:{letter * 64}" for letter in "abc")


class _Images:
    """Removes an image with all of its names, by a name or the id."""

    def __init__(self) -> None:
        self.images = {
            _A: pb.Image(id=_A, repo_tags=["h/a:1", "h/a:2"], size=10),
            _B: pb.Image(id=_B, repo_tags=["h/b:1"], repo_digests=[f"h/b@{_A}"], size=20),
            _C: pb.Image(id=_C, repo_digests=[f"h/c@{_A}"], size=30),
        }

    def _find(self, name: str) -> pb.Image | None:
        found = (image for image in self.images.values() if name in (image.id, *image.repo_tags))
        return next(found, None)

    async def list(self, _: pb.ListImagesRequest) -> pb.ListImagesResponse:
        return pb.ListImagesResponse(images=list(self.images.values()))

    async def status(self, request: pb.ImageStatusRequest) -> pb.ImageStatusResponse:
        return pb.ImageStatusResponse(image=self._find(request.image.image))

    async def remove(self, request: pb.RemoveImageRequest) -> pb.RemoveImageResponse:
        found = self._find(request.image.image)
        if found is not None:
            del self.images[found.id]
        return pb.RemoveImageResponse()


async def _containers(_: pb.ListContainersRequest) -> pb.ListContainersResponse:
    """One container of the image ``h/b:1``."""
    return pb.ListContainersResponse(containers=[pb.Container(id="1", image_ref=_B)])


class _Runtime:
    def __init__(self, socket: str, images: _Images) -> None:
        self.socket = socket
        self.images = images

    async def run(self, *words: str) -> Result:
        return await asyncio.to_thread(CliRunner().invoke, cli, ["image", "--endpoint", self.socket, *words])


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[_Runtime]:
    server, images = grpc.aio.server(), _Images()
    of_images, of_runtime = Calls("runtime.v1.ImageService"), Calls("runtime.v1.RuntimeService")
    of_images.unary("ListImages", pb.ListImagesRequest, images.list)
    of_images.unary("ImageStatus", pb.ImageStatusRequest, images.status)
    of_images.unary("RemoveImage", pb.RemoveImageRequest, images.remove)
    of_runtime.unary("ListContainers", pb.ListContainersRequest, _containers)
    server.add_generic_rpc_handlers([of_images.handler(), of_runtime.handler()])
    server.add_insecure_port(f"unix:{tmp_path}/other.sock")
    await server.start()
    try:
        yield _Runtime(f"{tmp_path}/other.sock", images)
    finally:
        await server.stop(0)


async def test_rm_of_one_of_several_names_is_refused_and_by_id_removes_all(runtime: _Runtime) -> None:
    refused = await runtime.run("rm", "h/a:1")
    assert refused.exit_code == 1 and f"`pykubelet image rm {_A}` does that" in refused.stderr
    assert len(runtime.images.images) == 3
    removed = await runtime.run("rm", _A)
    assert removed.stdout == f"untagged: h/a:1\nuntagged: h/a:2\nremoved: {_A}\n", removed.output


async def test_rm_of_a_used_image_needs_force(runtime: _Runtime) -> None:
    refused = await runtime.run("rm", "h/b:1")
    assert refused.exit_code == 1 and "is used by a container" in refused.stderr
    assert (await runtime.run("rm", "--force", "h/b:1")).exit_code == 0
    assert _B not in runtime.images.images


async def test_prune_leaves_used_images_and_tag_is_unsupported(runtime: _Runtime) -> None:
    dry = await runtime.run("prune", "--all", "--dry-run")
    assert dry.stdout.splitlines()[-1] == "2 images, 40B would be freed" and len(runtime.images.images) == 3
    pruned = await runtime.run("prune")
    assert pruned.stdout == f"removed: h/c@{_A} cccccccccccc\n1 image, 30B freed\n", pruned.output
    assert list(runtime.images.images) == [_A, _B]
    assert isinstance((await runtime.run("tag", "h/a:1", "h/x:1")).exception, Unsupported)
