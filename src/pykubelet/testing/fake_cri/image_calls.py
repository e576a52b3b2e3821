"""The fake runtime's CRI calls about images."""

from collections.abc import AsyncGenerator

from grpc import StatusCode

from pykubelet.kubelet.actuate.cri import calls
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.fake_cri.faults import RpcError
from pykubelet.testing.fake_cri.router import Router
from pykubelet.testing.fake_cri.state import nanoseconds
from pykubelet.testing.fake_cri.world import World

_FILESYSTEM = "/var/lib/fake"


class ImageHandlers:
    """The CRI image service. Only images that tests have added to the registry can be pulled."""

    def __init__(self, world: World, router: Router) -> None:
        self._world = world
        router.serve(calls.LIST_IMAGES, self._list)
        router.serve_stream(calls.STREAM_IMAGES, self._stream)
        router.serve(calls.IMAGE_STATUS, self._status)
        router.serve(calls.PULL_IMAGE, self._pull)
        router.serve(calls.REMOVE_IMAGE, self._remove)
        router.serve(calls.IMAGE_FS_INFO, self._fs_info)

    def _select(self, filter: pb.ImageFilter) -> list[pb.Image]:
        wanted = filter.image.image
        return [image.message() for image in self._world.images if not wanted or wanted in image.names()]

    def _list(self, request: pb.ListImagesRequest) -> pb.ListImagesResponse:
        return pb.ListImagesResponse(images=self._select(request.filter))

    async def _stream(self, request: pb.StreamImagesRequest) -> AsyncGenerator[pb.StreamImagesResponse, None]:
        for image in self._select(request.filter):
            yield pb.StreamImagesResponse(images=[image])

    def _status(self, request: pb.ImageStatusRequest) -> pb.ImageStatusResponse:
        image = self._world.image(request.image.image)
        return pb.ImageStatusResponse(
            image=image.message() if image else None, info={"info": "{}"} if request.verbose else None
        )

    async def _pull(self, request: pb.PullImageRequest) -> pb.PullImageResponse:
        name = request.image.image
        image = next((image for image in self._world.registry if name in image.names()), None)
        if image is None:
            raise RpcError(StatusCode.NOT_FOUND, f'failed to resolve reference "{name}": not found')
        if image.auth not in (None, (request.auth.username, request.auth.password)):
            raise RpcError(
                StatusCode.UNKNOWN, f'failed to resolve reference "{name}": authorization failed: no basic auth'
            )
        if image.pull_time:
            await self._world.clock.sleep(image.pull_time)
        if image not in self._world.images:
            self._world.images.append(image)
        return pb.PullImageResponse(image_ref=image.id)

    def _remove(self, request: pb.RemoveImageRequest) -> pb.RemoveImageResponse:
        image = self._world.image(request.image.image)
        if image is not None:
            self._world.images.remove(image)
        return pb.RemoveImageResponse()

    def _fs_info(self, request: pb.ImageFsInfoRequest) -> pb.ImageFsInfoResponse:
        usage = pb.FilesystemUsage(
            timestamp=nanoseconds(self._world.clock),
            fs_id=pb.FilesystemIdentifier(mountpoint=_FILESYSTEM),
            used_bytes=pb.UInt64Value(value=sum(image.size for image in self._world.images)),
            inodes_used=pb.UInt64Value(value=100 * len(self._world.images)),
        )
        return pb.ImageFsInfoResponse(image_filesystems=[usage], container_filesystems=[usage])
