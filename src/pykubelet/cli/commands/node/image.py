"""``pykubelet image``: pull, list, inspect, tag, remove, import and export images of a container runtime."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from pykubelet.base.errors import Invalid, NotFound, Permanent, PykubeletError
from pykubelet.base.units import MIB
from pykubelet.cli.client.local_api import LocalApi
from pykubelet.cli.command_group import SuggestingGroup
from pykubelet.cli.plan.columns import Columns, short_digest, size
from pykubelet.cli.terminal import echo

if TYPE_CHECKING:
    from pykubelet.cli.client.image_client import ImageClient
    from pykubelet.pb import runtime_v1_pb2 as pb

_PIECE = 1 * MIB
_COMPLETION_SECONDS = 1.0
_FILE = click.Path(path_type=Path)


def _complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of present images."""
    parent = ctx.parent.params.get("endpoint") if ctx.parent else ""
    agent = ctx.find_root().params.get("socket")
    try:
        names = _Target(str(parent or ""), agent if isinstance(agent, Path) else None).names()
    except PykubeletError:
        return []
    full = (incomplete, f"docker.io/{incomplete}", f"docker.io/library/{incomplete}")
    return sorted(name for name in names if name.startswith(full))


@dataclass(frozen=True, slots=True)
class _Target:
    """Location of the images: the endpoint as given, and the agent's socket."""

    endpoint: str
    agent: Path | None

    def names(self) -> list[str]:
        """Return the names of present images, as soon as possible. PykubeletError: no image service responds."""
        if not self.endpoint and self.agent is not None:
            # The agent answers before the libraries for the runtime's own service are imported.
            with suppress(PykubeletError):
                items = LocalApi(self.agent).get("/pykubelet/v1/images")["items"]
                return [str(name) for item in items for name in item.get("repoTags", ())]
        with self.client() as client:
            return [name for image in client.list(_COMPLETION_SECONDS) for name in image.repo_tags]

    def client(self) -> "ImageClient":
        """Return a client of the image service."""
        from pykubelet.cli.client.image_client import ImageClient, choose_endpoint

        return ImageClient(choose_endpoint(self.endpoint, self.agent))

    def images_of_pods(self) -> list[str]:
        """Return the images that the agent's pods name; none if no agent responds."""
        if self.agent is None:
            return []
        try:
            pods = LocalApi(self.agent).get("/api/v1/pods")["items"]
        except PykubeletError:
            return []
        groups = ("initContainers", "containers", "ephemeralContainers")
        return sorted({str(each["image"]) for pod in pods for group in groups for each in pod["spec"].get(group, ())})


@click.group(name="image", cls=SuggestingGroup)
@click.option("--endpoint", default="", help="The runtime's socket (default: the running agent's, or the first known).")
@click.pass_context
def command(ctx: click.Context, endpoint: str) -> None:
    """Pull, list, inspect, tag, remove, import and export images."""
    ctx.obj = _Target(endpoint, ctx.obj if isinstance(ctx.obj, Path) else None)


@command.command(short_help="Pull an image from its registry.")
@click.argument("reference")
@click.option("--creds", default="", metavar="USER[:PASSWORD]", help="Credentials for the registry.")
@click.option(
    "--docker-config", type=_FILE, help="Docker configuration file with credentials (default: ~/.docker/config.json)."
)
@click.option("-q", "--quiet", is_flag=True, help="Print the image's id only.")
@click.pass_obj
def pull(target: _Target, reference: str, creds: str, docker_config: Path | None, quiet: bool) -> None:
    """Pull an image from its registry; on a terminal with a progress bar for each layer."""
    from pykubelet.cli.client.registry_auth import find_auth
    from pykubelet.cli.output.image_progress import progress_output

    auth = find_auth(reference, creds, docker_config)
    with target.client() as client, progress_output(quiet=quiet) as update:
        identity = client.pull(reference, auth, update)
    echo(identity)


@command.command(name="ls", short_help="List images.")
@click.argument("reference", required=False, shell_complete=_complete)
@click.option("-q", "--quiet", is_flag=True, help="Print ids only.")
@click.option("--digests", is_flag=True, help="Show the digests of manifests.")
@click.option("-o", "--output", type=click.Choice(["json"]), help="Output form.")
@click.pass_obj
def list_images(target: _Target, reference: str | None, quiet: bool, digests: bool, output: str | None) -> None:
    """List all images, or the one that REFERENCE names."""
    with target.client() as client:
        images = [client.status(reference).image] if reference else client.list()
    images = sorted(images, key=lambda image: (not image.repo_tags, list(image.repo_tags), image.id))
    if output:
        echo(json.dumps([_document(image) for image in images], indent=2))
    elif quiet:
        for image in images:
            echo(image.id)
    else:
        headings = ("IMAGE", "ID", "SIZE", "DIGEST") if digests else ("IMAGE", "ID", "SIZE")
        rows = [row[: len(headings)] for image in images for row in _rows(image)]
        echo(Columns(*headings).render(rows))


@command.command(short_help="Print details of images as JSON.")
@click.argument("references", nargs=-1, required=True, metavar="REFERENCE…", shell_complete=_complete)
@click.pass_obj
def inspect(target: _Target, references: Sequence[str]) -> None:
    """Print details of images as JSON."""
    with target.client() as client:
        found = [client.status(reference, verbose=True) for reference in references]
    documents = []
    for reply in found:
        info = {name: _parsed(text) for name, text in reply.info.items()}
        documents.append({"status": _document(reply.image), **info})
    echo(json.dumps(documents, indent=2))


@command.command(short_help="Remove names of images.")
@click.argument("references", nargs=-1, required=True, metavar="REFERENCE…", shell_complete=_complete)
@click.option("-f", "--force", is_flag=True, help="Also if a container uses the image; the container keeps its files.")
@click.pass_obj
def rm(target: _Target, references: Sequence[str], force: bool) -> None:
    """Remove names of images. An image goes with its last name; an image's id removes all of its names."""
    failed = 0
    with target.client() as client:
        for reference in references:
            try:
                removed = client.remove(reference, force=force)
            except PykubeletError as error:
                echo(f"error: {error}", err=True)
                failed = 1
                continue
            for name in removed.names:
                echo(f"untagged: {name}")
            if removed.id:
                echo(f"removed: {removed.id}")
    sys.exit(failed)


@command.command(short_help="Give an image another name.")
@click.argument("source", shell_complete=_complete)
@click.argument("name")
@click.pass_obj
def tag(target: _Target, source: str, name: str) -> None:
    """Give the image SOURCE another NAME; an image that has the name loses it."""
    with target.client() as client:
        client.tag(source, name)


@command.command(short_help="Remove images that nothing uses.")
@click.option("-a", "--all", "also_tagged", is_flag=True, help="Also images that have a tag.")
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and remove nothing.")
@click.pass_obj
def prune(target: _Target, also_tagged: bool, dry_run: bool) -> None:
    """Remove images that no container and no pod of the agent uses: those without a tag, or with --all any."""
    with target.client() as client:
        pruned = client.prune(target.images_of_pods(), also_tagged=also_tagged, dry_run=dry_run)
    for image in pruned.images:
        name = ", ".join(image.repo_tags) or next(iter(image.repo_digests), "<none>")
        echo(f"{'would remove' if dry_run else 'removed'}: {name} {short_digest(image.id)}")
    noun = "image" if len(pruned.images) == 1 else "images"
    echo(f"{len(pruned.images)} {noun}, {size(pruned.freed)} {'would be ' if dry_run else ''}freed")


@command.command(name="import", short_help="Import images from an archive.")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("-t", "--tag", "tags", multiple=True, help="Name for the image, instead of its names in the archive.")
@click.option("-q", "--quiet", is_flag=True, help="Print ids only.")
@click.pass_obj
def import_(target: _Target, file: Path, tags: Sequence[str], quiet: bool) -> None:
    """Import images from an OCI or docker archive, plain or compressed; FILE may be - for standard input."""
    from pykubelet.cli.output.image_progress import progress_output

    with _opened(file) as archive, target.client() as client, progress_output(quiet=quiet) as update:
        try:
            images = client.import_archive(_pieces(archive), tags, update)
        except Invalid as error:
            raise Permanent(f"{file}: {error}") from error
    for image in images:
        echo(image.id if quiet else f"{', '.join(image.repo_tags) or '<none>'} {short_digest(image.id)}")


@command.command(short_help="Export images into an archive.")
@click.argument("references", nargs=-1, required=True, metavar="REFERENCE…", shell_complete=_complete)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, allow_dash=True),
    default=Path("-"),
    help="The archive file; - for standard output.",
)
@click.option(
    "--compress",
    type=click.Choice(["auto", "none", "gzip", "zstd"]),
    default="auto",
    help="auto: by the file's extension.",
)
@click.pass_obj
def export(target: _Target, references: Sequence[str], output: Path, compress: str) -> None:
    """Export images into one archive, which pykubelet, docker, podman and ctr can load."""
    from pykubelet.cli.changes.image_archive import archive_writer

    if str(output) == "-" and sys.stdout.isatty():
        raise Invalid("refusing to write an archive to a terminal; name a file with -o, or redirect the output")
    if file := next((each for each in references if each.startswith(("/", "./", "../"))), None):
        raise Invalid(f"{file} is a path, not an image; name the archive with -o {file}")
    with target.client() as client, archive_writer(output, compress) as write:
        for piece in client.export_archive(references):
            write(piece)


def _opened(file: Path) -> AbstractContextManager[IO[bytes]]:
    """Open the archive before the call, in which an error would be reported as one of the transfer."""
    if str(file) == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return file.open("rb")
    except OSError as error:
        raise NotFound(f"{file}: cannot be read: {error.strerror}") from error


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    while piece := file.read(_PIECE):
        yield piece


def _rows(image: "pb.Image") -> Iterator[tuple[str, str, str, str]]:
    by_repository = {name.partition("@")[0]: name.partition("@")[2] for name in image.repo_digests}
    names = [(name, by_repository.get(name.rpartition(":")[0], "")) for name in image.repo_tags]
    for name, digest in names or [(f"{name}@<digest>", digest) for name, digest in by_repository.items()]:
        yield name, short_digest(image.id), size(image.size), digest or "<none>"
    if not names and not by_repository:
        yield "<none>", short_digest(image.id), size(image.size), "<none>"


def _document(image: "pb.Image") -> dict[str, object]:
    """Return an image with CRI's JSON names, as crictl prints it."""
    document: dict[str, object] = {
        "id": image.id,
        "repoTags": list(image.repo_tags),
        "repoDigests": list(image.repo_digests),
        "size": image.size,
        "pinned": image.pinned,
    }
    if image.HasField("uid"):
        document["uid"] = image.uid.value
    if image.username:
        document["username"] = image.username
    return document


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text
