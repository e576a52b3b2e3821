"""Answers ``/logs/?query=…``: logs of services from the journal, or from the service's own file."""

import os
from collections.abc import Sequence
from typing import IO, Final

from aiohttp import web

from pykubelet.base import proc
from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Invalid, NotFound, PykubeletError
from pykubelet.base.files.safe_path import open_regular_in_root
from pykubelet.base.http.hangup import keep_alive
from pykubelet.base.text import printable
from pykubelet.base.units import KIB, MIB, Seconds
from pykubelet.kubelet.serve.kubelet_api.plan.log_query import (
    BadQueryError,
    LogQuery,
    NodeLogOptions,
    RefusedQueryError,
    file_names,
    journal_command,
    log_query,
)
from pykubelet.kubelet.serve.kubelet_api.routes.node_logs import NodeLogs

_WITHIN: Final[Seconds] = 30.0
_MAX_OUTPUT: Final = 32 * MIB
"""Bytes of the journal that are sent: journalctl's output is held in memory."""
_CHUNK: Final = 256 * KIB
_BAD_PATTERN: Final = b"Bad pattern"
"""The first words of journalctl about a regular expression that it cannot use."""


class LogQueries:
    """Handler of ``/logs/`` where ``enableSystemLogQuery`` is on; ``NodeLogs`` serves plain files and directories."""

    def __init__(self, logs: NodeLogs) -> None:
        self._logs = logs

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a log query; without one, send the file or directory that the path names."""
        asked = {name: request.query.getall(name) for name in request.query}
        try:
            query = log_query(asked)
        except BadQueryError as error:
            return web.Response(status=400, text=f"{error}\n")
        except RefusedQueryError as error:
            return web.Response(status=406, text=f"{error}\n")
        if query is None:
            return await self._logs.handle(request)
        if query.file:
            return await self._logs.send(request, query.file.lstrip("/"))
        return await self._services(request, query)

    async def _services(self, request: web.Request, query: LogQuery) -> web.StreamResponse:
        units = await _journal_units()
        files = [service for service in query.services if f"{service}.service" not in units]
        if files and query.options != NodeLogOptions():
            listed = " ".join(files)
            text = f"\noptions present and query resolved to log files for [{listed}]\ntry without specifying options\n"
            return web.Response(text=text)
        if files:
            return await self._send(request, files)
        try:
            done = await proc.run(journal_command(query), timeout=_WITHIN, check=False, max_output=_MAX_OUTPUT)
        except PykubeletError as error:
            return web.Response(text=f"\nerror: journal output not available: {error}\n")
        if query.options.pattern and done.returncode and done.stderr.startswith(_BAD_PATTERN):
            return web.Response(
                status=406, text=f"pattern: {printable(done.stderr.decode(errors='replace').strip())}\n"
            )
        more = f"\nlog truncated: it has more than {_MAX_OUTPUT >> 20} MiB\n".encode() if done.truncated else b""
        rest = done.stderr + more
        body = done.stdout + rest if rest else done.stdout
        return web.Response(body=body, content_type="text/plain", charset="utf-8")

    async def _send(self, request: web.Request, services: Sequence[str]) -> web.StreamResponse:
        """Send the files of services in pieces: they may be of any size."""
        response = web.StreamResponse(headers={"Content-Type": "text/plain; charset=utf-8"})
        if request.transport is not None:
            keep_alive(request.transport)
        await response.prepare(request)
        for service in services if request.method != "HEAD" else ():
            found = await blocking.call("node-logs", self._open, service)
            if isinstance(found, str):
                await response.write(found.encode())
                continue
            with found:
                left = os.fstat(found.fileno()).st_size
                while left > 0 and (data := await blocking.call("node-logs", found.read, min(left, _CHUNK))):
                    left -= len(data)
                    await response.write(data)
        return response

    def _open(self, service: str) -> IO[bytes] | str:
        """Open the file of a service; a text if it does not exist or cannot be opened."""
        for name in file_names(service):
            try:
                return os.fdopen(open_regular_in_root(self._logs.root, name), "rb", buffering=0)
            except (NotFound, Invalid):
                continue
            except OSError as error:
                return f"\nerror getting log for {service}: {error.strerror}\n"
        return f"\nlog not found for {service}\n"


async def _journal_units() -> frozenset[str]:
    """Return the units that the journal knows; empty where there is no journal."""
    try:
        done = await proc.run(["journalctl", "--field", "_SYSTEMD_UNIT"], timeout=_WITHIN)
    except PykubeletError:
        return frozenset()
    return frozenset(done.stdout.decode(errors="replace").split())
