"""Restart requests: restarts of containers and pods that a person has requested; they survive a restart of the agent.

A request is on disk, in the pod's directory, before it is acknowledged. The pod's worker binds it to the attempts that
exist at its next sync, replaces these, and removes the request (``plan/requested_restarts.py``).
"""

import asyncio
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.errors import Transient
from pykubelet.base.files.state_files import read_state_file, write_state_file
from pykubelet.base.units import MIB
from pykubelet.kubelet.actuate.podruntime.plan.requested_restarts import RestartRequest, bound, marked, merged
from pykubelet.kubelet.actuate.podruntime.podruntime_interfaces import PodFiles
from pykubelet.kubelet.actuate.records import read_records
from pykubelet.kubelet.types.ids import ContainerID, PodUID, SandboxID
from pykubelet.kubelet.types.runtime import PodRuntimeStatus

_MAX_FILE: Final = 16 * MIB
"""Bytes: a manifest has at most 10 MiB, and each of its containers some 130 bytes here."""


class _File(msgspec.Struct, frozen=True):
    """Content of a pod's file."""

    containers: list[str] = []
    pod: bool = False
    waiting: bool = False
    attempts: list[str] = []
    sandbox: str = ""


class RestartRequests:
    """The requests of all pods, at most one for each, which holds everything that is to be restarted of it."""

    def __init__(self, files: PodFiles, clock: Clock) -> None:
        self._files = files
        self._guard = Guard("records.restarts", clock.monotonic)
        self._requests: dict[PodUID, RestartRequest] = {}
        self._locks: WeakValueDictionary[PodUID, asyncio.Lock] = WeakValueDictionary()
        """Each exists as long as a call holds it or waits for it."""

    async def load(self, uids: Iterable[PodUID]) -> None:
        """Read the requests that an earlier agent has acknowledged; one that cannot be read counts as missing."""
        self._requests |= await read_records(self._guard, list(uids), self._read)

    async def add(self, uid: PodUID, request: RestartRequest) -> None:
        """Record a request; it is on disk when this returns. Raises Transient; Invalid: it is too large."""
        async with self._lock(uid):
            await self._save(uid, merged(self._requests.get(uid), request))

    async def apply(self, status: PodRuntimeStatus) -> PodRuntimeStatus:
        """Return the pod's state with the attempts marked that have to be replaced. Raises Transient."""
        uid = status.uid
        if uid not in self._requests:
            return status
        async with self._lock(uid):
            request = bound(self._requests[uid], status)
            if request != self._requests[uid]:
                await self._save(uid, request)
        return marked(status, request)

    def forget(self, uid: PodUID) -> None:
        """Forget a pod whose directory is removed."""
        self._requests.pop(uid, None)

    def _lock(self, uid: PodUID) -> asyncio.Lock:
        return self._locks.setdefault(uid, asyncio.Lock())

    async def _save(self, uid: PodUID, request: RestartRequest) -> None:
        try:
            await blocking.call_to_end(f"pod/{uid}", _write, self._files.restarts(uid), request)
        except OSError as error:
            raise Transient(f"cannot save the restart request of pod {uid}: {error}") from error
        if request.empty:
            self._requests.pop(uid, None)
        else:
            self._requests[uid] = request

    def _read(self, uid: PodUID) -> RestartRequest | None:
        parse = partial(msgspec.json.decode, type=_File)
        try:
            file: _File = read_state_file(self._files.restarts(uid), _MAX_FILE, parse)
        except FileNotFoundError:
            return None
        attempts = frozenset(ContainerID(each) for each in file.attempts)
        sandbox = SandboxID(file.sandbox) if file.sandbox else None
        return RestartRequest(frozenset(file.containers), file.pod, file.waiting, attempts, sandbox)


def _write(path: Path, request: RestartRequest) -> None:
    if request.empty:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(mode=0o750, exist_ok=True)
    file = _File(
        sorted(request.containers), request.pod, request.waiting, sorted(request.attempts), request.sandbox or ""
    )
    write_state_file(path, msgspec.json.encode(file), _MAX_FILE)
