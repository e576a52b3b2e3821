"""``pykubelet cp``: copy files from and to containers, through tar in the container."""

import re
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING
from urllib.parse import urlencode

import click

from pykubelet.base.errors import Invalid, NotFound, Permanent
from pykubelet.cli.arguments.lookup import api_of, find_container, find_pod
from pykubelet.cli.arguments.pod_completion import pods_and_files
from pykubelet.cli.client.local_api import LocalApi
from pykubelet.cli.terminal import echo

if TYPE_CHECKING:
    from pykubelet.cli.client.streams import Sink

_UNCHECKED_BYTES = 64 << 20
"""Bytes that a container may send before the free space is checked again."""
_REMOTE = re.compile(r"(?:pod/)?(?:(?P<namespace>[a-z0-9.-]+)/)?(?P<pod>[a-z0-9.-]+):(?P<path>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _RemotePath:
    """A path in a pod."""

    pod: str
    namespace: str
    path: str


@dataclass(frozen=True, slots=True)
class _Container:
    """A running container, in which commands are executed."""

    api: LocalApi
    namespace: str
    pod: str
    name: str

    def run(self, *argv: str, source: IO[bytes] | None = None, sink: "Sink | None" = None) -> int:
        """Run a command with its streams connected to files and return its status."""
        from pykubelet.cli.client.streams import Session, run_session

        query = [("container", self.name), ("stderr", "true"), ("stdout", "true")]
        query += [("command", word) for word in argv]
        query += [("stdin", "true")] if source is not None else []
        path = f"/api/v1/namespaces/{self.namespace}/pods/{self.pod}/exec?{urlencode(query)}"
        return run_session(Session(self.api.path, path, source is not None, False, source, sink))


class _BoundedFile:
    """A file for what a container sends, which may be without end."""

    def __init__(self, file: IO[bytes], directory: str) -> None:
        """``directory`` is on the file system of the file."""
        self._file = file
        self._directory = directory
        self._count = 0
        self._next_check = _UNCHECKED_BYTES

    def write(self, data: bytes, /) -> None:
        """Write all data. Permanent: less than a tenth of the file system would be left."""
        self._count += len(data)
        if self._count > self._next_check:
            self._next_check = self._count + _UNCHECKED_BYTES
            from pykubelet.linux.filesystems.fsusage import filesystem

            found = filesystem(self._directory)
            if found.available < found.capacity // 10:
                raise Permanent(
                    f"the container has sent {self._count >> 20} MiB, and less than a tenth of the file system of "
                    f"{self._directory} is free; copy less, or to another file system"
                )
        self._file.write(data)

    def flush(self) -> None:
        """Do nothing: the file is read by this process only."""


@click.command(name="cp")
@click.argument("source", shell_complete=pods_and_files)
@click.argument("target", shell_complete=pods_and_files)
@click.option("-c", "--container", default=None, help="The container (default: the first).")
@click.option("-n", "--namespace", default="", help="The pod's namespace (also NAMESPACE/POD:PATH).")
@click.pass_context
def command(ctx: click.Context, source: str, target: str, container: str | None, namespace: str) -> None:
    """Copy a file or directory from POD:PATH to a local path, or back. The container needs tar.

    Links that lead out of the target, devices and pipes are left out, with a warning and exit status 1.

    Example: pykubelet cp web:/etc/nginx ./nginx        pykubelet cp index.html web:/usr/share/nginx/html/
    """
    here, there = _parse(source, namespace), _parse(target, namespace)
    if (here is None) == (there is None):
        raise click.UsageError("exactly one of the two must be in a pod: POD:PATH")
    remote = here or there
    assert remote is not None
    api = api_of(ctx.obj)
    pod = find_pod(api, remote.pod, remote.namespace)
    chosen = _Container(api, pod.namespace, pod.name, find_container(pod, container))
    if here is not None:
        ctx.exit(_download(chosen, here.path, Path(target)))
    ctx.exit(_upload(chosen, Path(source), remote.path))


def _parse(text: str, namespace: str) -> _RemotePath | None:
    """Return the place in a pod; None for a local path. Invalid: the path is missing."""
    match = None if text.startswith((".", "/")) else _REMOTE.fullmatch(text)
    if match is None:
        return None
    if not match["path"]:
        raise Invalid(f"{text}: name a path in the pod, for example {text}/tmp/file")
    return _RemotePath(match["pod"], match["namespace"] or namespace, match["path"])


def _download(container: _Container, path: str, target: Path) -> int:
    from pykubelet.cli.changes.tar_extract import base_name, extract

    directory, name = base_name(path)
    if not target.parent.is_dir():
        raise NotFound(f"{target.parent} does not exist")
    with tempfile.TemporaryFile(dir=target.parent) as archive:
        sink = _BoundedFile(archive, str(target.parent))
        _check(container.run("tar", "cf", "-", "-C", directory, f"./{name}", sink=sink), container, path)
        archive.seek(0)
        skipped = extract(archive, name, target, lambda text: echo(f"warning: {text}", err=True))
    return 1 if skipped else 0


def _upload(container: _Container, source: Path, path: str) -> int:
    from pykubelet.cli.changes.tar_extract import base_name

    if not source.exists():
        raise NotFound(f"{source} does not exist")
    with tempfile.TemporaryFile() as sink:
        into = container.run("test", "-d", path, sink=sink) == 0
    directory, name = (path, source.resolve().name) if into else base_name(path)
    if path.endswith("/") and not into:
        raise NotFound(f"{path} is not a directory in container {container.name} of pod {container.pod}")
    with tempfile.TemporaryFile() as archive, tempfile.TemporaryFile() as sink:
        try:
            with tarfile.open(fileobj=archive, mode="w:") as tar:
                tar.add(source, arcname=name, filter=_plain)
        except OSError as error:
            raise Permanent(f"{error.filename or source} cannot be read: {error.strerror}") from error
        archive.seek(0)
        _check(container.run("tar", "xmf", "-", "-C", directory, source=archive, sink=sink), container, path)
    return 0


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Drop the local owner, who is unknown in the container."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _check(status: int, container: _Container, path: str) -> None:
    if status:
        where = f"container {container.name} of pod {container.pod}"
        raise Permanent(f"tar in {where} failed for {path} with status {status}")
