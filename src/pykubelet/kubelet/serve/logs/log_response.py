"""Answers requests for a container's log, for all servers."""

import logging
from pathlib import Path

from aiohttp import web
from msgspec import Struct

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import PykubeletError
from pykubelet.kubelet.serve.common.pods_view import PodsView
from pykubelet.kubelet.serve.common.server_types import LogOptions
from pykubelet.kubelet.serve.logs.directory_watch import DirWatcher
from pykubelet.kubelet.serve.logs.log_files import LogDirectory
from pykubelet.kubelet.serve.logs.log_stream import LogSession, LogTarget, copy_log
from pykubelet.kubelet.serve.logs.plan.log_choice import choose_attempt
from pykubelet.kubelet.types.ids import ref_of
from pykubelet.models.core_v1 import Pod

_log = logging.getLogger(__name__)


class LogSource(Struct, frozen=True):
    """Directories of logs, and the signal of new content."""

    root: Path
    """``podLogsDir``."""
    pods: PodsView
    watcher: DirWatcher


async def log_response(request: web.Request, pod: Pod, options: LogOptions, source: LogSource) -> web.StreamResponse:
    """Stream the log of ``options.container``, which must be one of the pod's containers.

    Errors before the first byte: Invalid, NotFound, Transient. Later errors close the connection without the end of the
    answer.
    """
    name, ref = options.container, ref_of(pod)
    target = LogTarget(ref.uid, name, LogDirectory(root=source.root, ref=ref, container=name))
    session = LogSession(target, options)
    try:
        attempts = await blocking.call_to_end(target.owner, target.directory.attempts)
        await blocking.call_to_end(
            target.owner, session.open, choose_attempt(pod, name, attempts, previous=options.previous)
        )
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        if request.method == "HEAD":
            return response
        try:
            await copy_log(session, target, source.pods, source.watcher, response.write)
        except* (PykubeletError, OSError) as group:
            _broken_off(request, group)
        return response
    finally:
        session.close()


def _broken_off(request: web.Request, group: BaseExceptionGroup[BaseException]) -> None:
    """Abort the connection: it is too late to send a Status."""
    if group.subgroup(ConnectionError) is None:
        _log.warning("sending a log failed", extra={"path": request.path, "error": str(group.exceptions[0])})
    if request.transport is not None:
        request.transport.abort()
