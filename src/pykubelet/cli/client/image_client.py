"""Client of a runtime's image services: CRI of any runtime, and ImageTransfer of pykubelet's own server."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self, cast

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # grpc's core logs routine messages to stderr; read at import

import grpc
from google.protobuf.message import Message

from pykubelet.base.errors import Invalid, NotFound, Permanent, PykubeletError, Transient, Unsupported
from pykubelet.base.units import MIB, Seconds
from pykubelet.cli.client.endpoint import KNOWN_SOCKETS, other_runtimes
from pykubelet.cli.client.local_api import LocalApi, NoPermission
from pykubelet.pb import images_v1_pb2 as transfer
from pykubelet.pb import images_v1_pb2_grpc as transfer_grpc
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.pb import runtime_v1_pb2_grpc as pb_grpc

OWN_SOCKET = Path("/run/pykubelet/criserver/criserver.sock")
_QUICK: Seconds = 30.0
_OPTIONS = (
    ("grpc.default_authority", "localhost"),
    ("grpc.max_receive_message_length", 16 * MIB),
    ("grpc.max_send_message_length", 16 * MIB),
)
_ERRORS: dict[grpc.StatusCode, type[PykubeletError]] = {
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.INVALID_ARGUMENT: Invalid,
    grpc.StatusCode.UNIMPLEMENTED: Unsupported,
    grpc.StatusCode.UNAVAILABLE: Transient,
    grpc.StatusCode.UNKNOWN: Transient,
    grpc.StatusCode.DEADLINE_EXCEEDED: Transient,
}

OnProgress = Callable[[Sequence[transfer.Progress]], None]


def choose_endpoint(given: str, agent: Path | None = None) -> str:
    """Return the endpoint of the image service.

    That is the given one, else that of the agent with the socket ``agent``, else pykubelet's own server's, else a known
    runtime's. NotFound: none exists. NoPermission: the agent is another user's. Transient: another than the default
    agent was chosen, and it does not respond.
    """
    if given:
        return given if "://" in given else f"unix://{Path(given).absolute()}"
    if agent is not None:
        try:
            return image_endpoint_of(agent)
        except NoPermission:
            raise
        except PykubeletError as error:
            criserver_socket = agent.parent / "criserver" / OWN_SOCKET.name
            if criserver_socket.is_socket():
                return f"unix://{criserver_socket.absolute()}"
            if criserver_socket != OWN_SOCKET:
                raise Transient(f"{error}; --endpoint names the runtime's socket") from error
    own = [f"unix://{OWN_SOCKET}"] if OWN_SOCKET.is_socket() else []
    found = own or other_runtimes()
    if not found:
        known = ", ".join((str(OWN_SOCKET), *KNOWN_SOCKETS))
        raise NotFound(f"no container runtime found at {known}; start one, or name its socket with --endpoint")
    return found[0]


def image_endpoint_of(agent: Path) -> str:
    """Return the endpoint that a running agent uses for images. Transient: no agent responds."""
    version = LocalApi(agent).get("/pykubelet/v1/version")
    endpoint = version.get("imageEndpoint") if isinstance(version, dict) else None
    if not endpoint:
        raise Transient(f"the agent at {agent} is of an older version and does not tell its runtime's socket")
    return str(endpoint)


class ImageClient:
    """A context manager. Errors are those of ``base.errors``, with the runtime's messages."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._channel = grpc.insecure_channel(endpoint, options=_OPTIONS)
        self._cri = pb_grpc.ImageServiceStub(self._channel)
        self._runtime = pb_grpc.RuntimeServiceStub(self._channel)
        self._own = transfer_grpc.ImageTransferStub(self._channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._channel.close()

    def list(self, timeout: Seconds = _QUICK) -> Sequence[pb.Image]:
        """Return all images."""
        with self._errors():
            return self._cri.ListImages(pb.ListImagesRequest(), timeout=timeout).images

    def status(self, name: str, *, verbose: bool = False) -> pb.ImageStatusResponse:
        """Return one image by name, digest or id. NotFound."""
        with self._errors():
            request = pb.ImageStatusRequest(image=pb.ImageSpec(image=name), verbose=verbose)
            reply = self._cri.ImageStatus(request, timeout=_QUICK)
        if not reply.image.id:
            raise NotFound(f"image {name} is not present")
        return reply

    def remove(self, name: str, *, force: bool = False) -> transfer.RemoveReply:
        """Remove one name of an image, and the image with its last name; an id removes it with all names.

        Permanent: a container uses the image, and not ``force``; or another runtime cannot remove one name alone.
        """
        try:
            with self._errors():
                return self._own.Remove(transfer.RemoveRequest(image=name, force=force))
        except Unsupported:
            return self._remove_by_cri(self.status(name).image, name, force=force)

    def _remove_by_cri(self, image: pb.Image, name: str, *, force: bool) -> transfer.RemoveReply:
        names = (*image.repo_tags, *image.repo_digests)
        is_id = image.id.removeprefix("sha256:").startswith(name.removeprefix("sha256:"))
        if len(image.repo_tags) > 1 and not is_id:
            raise Permanent(
                f"this runtime removes an image only with all of its names ({', '.join(image.repo_tags)}); "
                f"`pykubelet image rm {image.id}` does that"
            )
        if image.id in self._used_images() and not force:
            raise Permanent(f"image {name} is used by a container; remove the pods first, or use --force")
        with self._errors():
            self._cri.RemoveImage(pb.RemoveImageRequest(image=pb.ImageSpec(image=image.id)), timeout=None)
        return transfer.RemoveReply(names=names, id=image.id)

    def tag(self, source: str, target: str) -> pb.Image:
        """Give an image another name. Unsupported: the runtime is not pykubelet's own server."""
        with self._errors():
            return self._own.Tag(transfer.TagRequest(source=source, target=target)).image

    def prune(self, keep: Sequence[str], *, also_tagged: bool, dry_run: bool) -> transfer.PruneReply:
        """Remove the images that no container uses and ``keep`` does not name; without ``also_tagged`` untagged ones.

        Other runtimes report the size of an image only, so that the bytes include what images share.
        """
        try:
            with self._errors():
                return self._own.Prune(transfer.PruneRequest(all=also_tagged, dry_run=dry_run, keep=keep))
        except Unsupported:
            pass
        used = self._used_images()
        for name in keep:
            with suppress(NotFound):
                used.add(self.status(name).image.id)
        images = [
            image
            for image in self.list()
            if image.id not in used and not image.pinned and (also_tagged or not image.repo_tags)
        ]
        for image in () if dry_run else images:
            with self._errors():
                self._cri.RemoveImage(pb.RemoveImageRequest(image=pb.ImageSpec(image=image.id)), timeout=None)
        return transfer.PruneReply(images=images, freed=sum(image.size for image in images))

    def _used_images(self) -> set[str]:
        """The ids of the images that containers use."""
        with self._errors():
            containers = self._runtime.ListContainers(pb.ListContainersRequest(), timeout=_QUICK).containers
        return {name for each in containers for name in (each.image_id, each.image_ref, each.image.image)}

    def pull(self, name: str, auth: pb.AuthConfig | None, on_progress: OnProgress) -> str:
        """Pull an image and return its id. Only pykubelet's own server reports progress."""
        try:
            with self._errors():
                images = _follow(self._own.Pull(transfer.PullRequest(image=name, auth=auth)), on_progress)
                return images[0].id
        except Unsupported:
            with self._errors():
                request = pb.PullImageRequest(image=pb.ImageSpec(image=name), auth=auth)
                return self._cri.PullImage(request).image_ref

    def import_archive(
        self, pieces: Iterable[bytes], tags: Sequence[str], on_progress: OnProgress
    ) -> Sequence[pb.Image]:
        """Send an archive and return the images in it. Unsupported: the runtime is not pykubelet's own server."""

        def requests() -> Iterator[transfer.ImportRequest]:
            yield transfer.ImportRequest(tags=tags)
            for piece in pieces:
                yield transfer.ImportRequest(data=piece)

        with self._errors():
            return _follow(self._own.Import(requests()), on_progress)

    def export_archive(self, names: Sequence[str]) -> Iterator[bytes]:
        """Yield images as an archive, piece by piece."""
        with self._errors():
            for reply in self._own.Export(transfer.ExportRequest(images=names)):
                yield reply.data

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except grpc.RpcError as error:
            call = cast(grpc.Call, error)  # errors of stubs are also calls
            code, details = call.code(), call.details() or ""
            if code is grpc.StatusCode.UNIMPLEMENTED and not details:
                details = "this runtime does not support the call"
            if code is grpc.StatusCode.UNAVAILABLE and "connect" in details:
                details = f"no runtime responds at {self.endpoint} ({details})"
            raise _ERRORS.get(code, Permanent)(details or code.name) from error


def _follow(replies: Iterable[Message], on_progress: OnProgress) -> Sequence[pb.Image]:
    images: Sequence[pb.Image] = ()
    for reply in replies:
        assert isinstance(reply, transfer.TransferReply)
        if reply.progress:
            on_progress(reply.progress)
        images = reply.images or images
    return images
