"""CRI calls about images."""

from collections.abc import Sequence

from pykubelet.base.errors import Unsupported
from pykubelet.kubelet.actuate.cri import calls
from pykubelet.kubelet.actuate.cri.caller import Caller, bad_reply
from pykubelet.pb import images_v1_pb2 as transfer
from pykubelet.pb import runtime_v1_pb2 as pb


class ImageCalls(Caller):
    """Image calls of `CriClient`. All methods raise `CriError` and its base classes in `base.errors`."""

    _lists_pulls = True

    async def list_images(self, filter: pb.ImageFilter | None = None) -> list[pb.Image]:
        """List the images on this node that match the filter; all without a filter."""
        parts = await self._parts(calls.STREAM_IMAGES, pb.StreamImagesRequest(filter=filter))
        if parts is not None:
            return [image for part in parts for image in part.images]
        reply = await self._call(calls.LIST_IMAGES, pb.ListImagesRequest(filter=filter))
        return list(reply.images)

    async def image_status(self, image: pb.ImageSpec) -> pb.Image | None:
        """Read an image by reference or id; None if it is not on this node."""
        reply = await self._call(calls.IMAGE_STATUS, pb.ImageStatusRequest(image=image), image.image)
        if not reply.HasField("image"):
            return None
        if not reply.image.id or not reply.image.size:
            raise bad_reply(calls.IMAGE_STATUS, image.image, "no image id or size")
        return reply.image

    async def pull_image(
        self,
        image: pb.ImageSpec,
        auth: pb.AuthConfig | None = None,
        sandbox_config: pb.PodSandboxConfig | None = None,
    ) -> str:
        """Pull the image; return the id or digest to create containers from. No deadline; cancel to stop it."""
        request = pb.PullImageRequest(image=image, auth=auth, sandbox_config=sandbox_config)
        reply = await self._call(calls.PULL_IMAGE, request, image.image, extra=None)
        if not reply.image_ref:
            raise bad_reply(calls.PULL_IMAGE, image.image, "no image reference")
        return reply.image_ref

    async def remove_image(self, image: pb.ImageSpec) -> None:
        """Remove the image with all of its names. Succeeds if it does not exist."""
        await self._call(calls.REMOVE_IMAGE, pb.RemoveImageRequest(image=image), image.image)

    async def image_fs_info(self) -> pb.ImageFsInfoResponse:
        """File systems of images and writable layers, with their usage."""
        return await self._call(calls.IMAGE_FS_INFO, pb.ImageFsInfoRequest())

    async def list_pulls(self) -> Sequence[transfer.Progress]:
        """List the running pulls; none if the runtime is not pykubelet's own server."""
        if not self._lists_pulls:
            return ()
        try:
            reply = await self._call(calls.LIST_PULLS, transfer.ListPullsRequest())
        except Unsupported:
            self._lists_pulls = False
            return ()
        return list(reply.pulls)
