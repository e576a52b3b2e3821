"""Answers ``/logs/?query=…``: logs of services from the journal, or from the service's own file."""

import os
from typing import Final

from aiohttp import web

from pykubelet.base import proc
from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Invalid, NotFound, PykubeletError
from pykubelet.base.files.safe_path import open_regular_in_root
from pykubelet.base.units import MIB, Seconds
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
_MAX_OUTPUT: Final = 64 * MIB


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
        return web.Response(body=await self._services(query), content_type="text/plain", charset="utf-8")

    async def _services(self, query: LogQuery) -> bytes:
        units = await _journal_units()
        files = [service for service in query.services if f"{service}.service" not in units]
        if files and query.options != NodeLogOptions():
            listed = " ".join(files)
            text = f"\noptions present and query resolved to log files for [{listed}]\ntry without specifying options\n"
            return text.encode()
        if files:
            return b"".join([await blocking.call("node-logs", self._file, service) for service in files])
        try:
            done = await proc.run(journal_command(query), timeout=_WITHIN, check=False, max_output=_MAX_OUTPUT)
        except PykubeletError as error:
            return f"\nerror: journal output not available: {error}\n".encode()
        return done.stdout + done.stderr

    def _file(self, service: str) -> bytes:
        for name in file_names(service):
            try:
                fd = open_regular_in_root(self._logs.root, name)
            except (NotFound, Invalid):
                continue
            except OSError as error:
                return f"\nerror getting log for {service}: {error.strerror}\n".encode()
            with os.fdopen(fd, "rb") as file:
                return file.read(_MAX_OUTPUT)
        return f"\nlog not found for {service}\n".encode()


async def _journal_units() -> frozenset[str]:
    """Return the units that the journal knows; empty where there is no journal."""
    try:
        done = await proc.run(["journalctl", "--field", "_SYSTEMD_UNIT"], timeout=_WITHIN)
    except PykubeletError:
        return frozenset()
    return frozenset(done.stdout.decode(errors="replace").split())
