"""Allocates id ranges to pods and records them in the pods' directories."""

import logging
import pwd
import shutil
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct

from pykubelet.base import proc
from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.errors import Invalid, PykubeletError, Transient
from pykubelet.base.files.atomic import write_atomic
from pykubelet.base.files.state_files import read_state_file
from pykubelet.kubelet.actuate.cri_messages.config_types import UserNamespace
from pykubelet.kubelet.actuate.records import read_records
from pykubelet.kubelet.actuate.userns.plan.id_ranges import UNIT, IdPool, from_file, namespace, parse_getsubids, to_file
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.models.core_v1 import Pod

_log = logging.getLogger(__name__)

_USER: Final = "kubelet"
_TOOL: Final = "getsubids"
_MAX_FILE: Final = 1 << 16
_TIMEOUT: Final = 30.0
"""Timeout of user look-ups, which may use the network."""


class UserNamespaceConfig(Struct, frozen=True):
    """Settings of user namespaces."""

    ids_per_pod: int = UNIT
    max_pods: int = 110


class IdRangeManager:
    """Id ranges of pods. `load` reads the records on disk once; later changes are made in memory and then on disk."""

    def __init__(
        self,
        *,
        file: Callable[[PodUID], Path],
        supported: Callable[[str], bool | None],
        clock: Clock,
        config: UserNamespaceConfig | None = None,
    ) -> None:
        """``file`` returns the path of a pod's record; ``supported`` whether a runtime handler supports user
        namespaces, None for an unknown handler."""
        self._file = file
        self._supported = supported
        self._config = config or UserNamespaceConfig()
        self._pool = IdPool.default(self._config.ids_per_pod)
        self._guard = Guard("records.userns", clock.monotonic)
        self._allocated: dict[PodUID, int] = {}
        self._last: int | None = None
        self._problem = ""

    async def load(self, uids: Iterable[PodUID]) -> None:
        """Determine the node's pool and read the records of pods on disk; call it before the first pod is synced.

        If the node's configuration has no usable ids, only pods with ``hostUsers: false`` are rejected.
        """
        try:
            self._pool = await node_pool(self._config.ids_per_pod)
            self._pool.check(self._config.max_pods)
        except PykubeletError as error:
            self._problem = str(error)
            _log.error("user namespaces unavailable", extra={"error": self._problem})
        for uid, first in (await read_records(self._guard, uids, self._read)).items():
            if first in self._allocated.values():
                _log.error("two pods have the same user ids: one of them will not start", extra={"uid": uid})
                continue
            self._allocated[uid] = first

    def given(self, pod: Pod) -> UserNamespace | None:
        """User namespace of the pod; None if it has none, or uses the node's."""
        first = self._allocated.get(ref_of(pod).uid) if pod.spec.host_users is False else None
        return None if first is None else namespace(first, self._pool.per_pod)

    async def allocate(self, pod: Pod, handler: str) -> None:
        """Allocate ids to the pod if it has ``hostUsers: false``; its directory has to exist. Repeatable.

        Raises Invalid if the runtime's ``handler`` does not support it, Transient if no ids are free or the disk fails.
        """
        if pod.spec.host_users is not False:
            return
        self._require_support(handler)
        uid = ref_of(pod).uid
        if uid in self._allocated:
            return
        if self._problem:
            raise Invalid(f"create user namespace: {self._problem}")
        first = self._pool.next_free(set(self._allocated.values()), self._last)
        self._allocated[uid] = self._last = first
        data = to_file(first, self._pool.per_pod)
        try:
            await blocking.call_to_end(f"pod/{uid}", partial(write_atomic, self._file(uid), data, durable=True))
        except OSError as error:
            del self._allocated[uid]
            raise Transient(f"create user namespace: {error}") from error
        _log.info("user namespace allocated", extra={"pod": str(ref_of(pod)), "uid": uid, "first_id": first})

    async def release(self, uid: PodUID) -> None:
        """Free the ids of a pod that has no processes any more. Repeatable; raises Transient."""
        if uid not in self._allocated:
            return
        path = self._file(uid)
        try:
            await blocking.call_to_end(f"pod/{uid}", path.unlink, True)
        except OSError as error:
            raise Transient(f"cannot release the user ids of pod {uid}: {error}") from error
        self._allocated.pop(uid, None)

    def _require_support(self, handler: str) -> None:
        known = self._supported(handler)
        if known:
            return
        message = "can't set `spec.hostUsers: false`, runtime does not support user namespaces"
        if handler:
            message = (
                f'can\'t set `spec.hostUsers: false`, RuntimeClass handler "{handler}" does not support user namespaces'
            )
        raise Invalid(f"{message} (Linux 5.19 or later and a runtime with support are required)")

    def _read(self, uid: PodUID) -> int | None:
        try:
            return read_state_file(self._file(uid), _MAX_FILE, partial(from_file, pool=self._pool))
        except FileNotFoundError:
            return None


async def node_pool(per_pod: int) -> IdPool:
    """Return the sub-ids of the user ``kubelet``, if that user and ``getsubids`` exist; else all ids.

    Raises Invalid if the user exists but its sub-ids are unusable or cannot be read.
    """
    try:
        await blocking.call("names", pwd.getpwnam, _USER, deadline=_TIMEOUT)
    except KeyError:
        return IdPool.default(per_pod)
    if shutil.which(_TOOL) is None:
        return IdPool.default(per_pod)
    try:
        uids = await proc.run([_TOOL, _USER], timeout=_TIMEOUT)
        gids = await proc.run([_TOOL, "-g", _USER], timeout=_TIMEOUT)
    except PykubeletError as error:
        raise Invalid(f"cannot read the sub-ids of the user {_USER}: {error}") from error
    return parse_getsubids(uids.stdout, gids.stdout, per_pod)
