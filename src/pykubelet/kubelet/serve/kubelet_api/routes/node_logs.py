"""``/logs/``: the node's own log files (/var/log in the Go kubelet); nothing outside that directory is reachable.

Symbolic links are followed within the directory only, and only regular files and directories are shown: a pod that may
write there (a log collector, say) must not be able to expose other files of the node.
"""

import html
import os
import stat
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Final
from urllib.parse import quote

from aiohttp import web
from msgspec import Struct

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Invalid, NotFound
from pykubelet.base.files.safe_path import open_in_root, open_regular_in_root, proc_path
from pykubelet.base.text import printable

_CHUNK: Final = 256 * 1024
_MOST_NAMES: Final = 10_000
"""Names of a directory that are listed; a pod with a volume among the logs could create millions."""


class _OpenedLog(Struct, frozen=True):
    """A file to send, or the listing of a directory."""

    fd: int = -1
    size: int = 0
    listing: str = ""

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)


class NodeLogs:
    """Serves the node's log directory over HTTP."""

    def __init__(self, root: Path) -> None:
        self.root = root

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Send what the path names: a file, or a directory's entries as links. NotFound; Invalid: neither of them."""
        return await self.send(request, request.match_info.get("path", ""))

    async def send(self, request: web.Request, path: str) -> web.StreamResponse:
        """Send the file or directory at a path below the log directory. Errors as of ``handle``."""
        try:
            opened = await blocking.call("node-logs", _open, self.root, path)
        except PermissionError as error:
            raise Invalid(f"{path}: {error.strerror}") from error
        with closing(opened):
            if opened.fd < 0:
                return web.Response(text=opened.listing, content_type="text/html", charset="utf-8")
            return await _send(request, opened)


def _open(root: Path, path: str) -> _OpenedLog:
    pinned = open_in_root(root, path, os.O_PATH)
    try:
        if stat.S_ISDIR(os.fstat(pinned).st_mode):
            return _OpenedLog(listing=_listing(proc_path(pinned)))
    finally:
        os.close(pinned)
    fd = open_regular_in_root(root, path)
    return _OpenedLog(fd, os.fstat(fd).st_size)


def _listing(directory: str) -> str:
    with os.scandir(directory) as entries:
        some = islice(entries, _MOST_NAMES + 1)
        names = sorted(e.name + ("/" if e.is_dir(follow_symlinks=False) else "") for e in some)
    rows = [f'<a href="{quote(os.fsencode(n))}">{html.escape(printable(n))}</a>\n' for n in names[:_MOST_NAMES]]
    if len(names) > _MOST_NAMES:
        rows.append(f"more than {_MOST_NAMES} names; the others are left out\n")
    return f"<pre>\n{''.join(rows)}</pre>\n"


async def _send(request: web.Request, opened: _OpenedLog) -> web.StreamResponse:
    """Send the file up to its present size: data appended meanwhile is not sent."""
    response = web.StreamResponse(headers={"Content-Type": "text/plain; charset=utf-8"})
    response.content_length = opened.size
    await response.prepare(request)
    position = 0
    while request.method != "HEAD" and position < opened.size:
        size = min(_CHUNK, opened.size - position)
        data = await blocking.call("node-logs", os.pread, opened.fd, size, position)
        if not data:
            raise NotFound(f"{request.path} was truncated while it was being read")
        await response.write(data)
        position += len(data)
    return response
