"""Deals out ranges of ids to pods, and remembers in each pod's directory which one it has."""

import logging
import pwd
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from pykubelet.base import blocking, proc
from pykubelet.base.atomic import write_atomic
from pykubelet.base.errors import Invalid, PykubeletError, Transient
from pykubelet.base.guard import Guard
from pykubelet.base.own_files import read_own
from pykubelet.kubelet.actuate.criconfig.types import UserNamespace
from pykubelet.kubelet.actuate.records import read_records
from pykubelet.kubelet.actuate.userns.decide import UNIT, IdPool, from_file, namespace, parse_getsubids, to_file
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.models.core_v1 import Pod

_log = logging.getLogger(__name__)

_USER: Final = "kubelet"
_TOOL: Final = "getsubids"
_MAX_FILE: Final = 1 << 16
_TIMEOUT: Final = 30.0
"""Users may be looked up over the network."""


@dataclass(frozen=True, slots=True)
class UserNamespaceConfig:
    """What is asked for at the start."""

    ids_per_pod: int = UNIT
    max_pods: int = 110


class UserNamespaces:
    """See the package. What is on disk is read once, by `load`; afterwards memory leads and the disk follows."""

    def __init__(
        self,
        file: Callable[[PodUID], Path],
        supported: Callable[[str], bool | None],
        config: UserNamespaceConfig | None = None,
    ) -> None:
        """``file`` is where a pod's range is noted; ``supported`` says whether a handler of the runtime can have user
        namespaces, None if there is no such handler."""
        self._file = file
        self._supported = supported
        self._config = config or UserNamespaceConfig()
        self._pool = IdPool.default(self._config.ids_per_pod)
        self._guard = Guard("records.userns", time.monotonic)
        self._given: dict[PodUID, int] = {}
        self._last: int | None = None
        self._problem = ""

    async def load(self, uids: Iterable[PodUID]) -> None:
        """Find out which ids there are and which of them pods on disk have; before the first pod comes.

        Where the node's configuration leaves pods no ids, only those that want some are turned away.
        """
        try:
            self._pool = await node_pool(self._config.ids_per_pod)
            self._pool.check(self._config.max_pods)
        except PykubeletError as error:
            self._problem = str(error)
            _log.error("no user namespaces for pods", extra={"error": self._problem})
        for uid, first in (await read_records(self._guard, uids, self._read)).items():
            if first in self._given.values():
                _log.error("two pods have the same ids, one of them will not start", extra={"uid": uid})
                continue
            self._given[uid] = first

    def given(self, pod: Pod) -> UserNamespace | None:
        """The pod's ids; None if it has none, or uses the node's."""
        first = self._given.get(ref_of(pod).uid) if pod.spec.host_users is False else None
        return None if first is None else namespace(first, self._pool.per_pod)

    async def allocate(self, pod: Pod, handler: str) -> None:
        """See to it that the pod has ids, if it wants any of its own; its directory has to be there.

        Raises Invalid where the runtime's ``handler`` cannot do that, Transient when no ids are left or the disk fails.
        """
        if pod.spec.host_users is not False:
            return
        self._require_support(handler)
        uid = ref_of(pod).uid
        if uid in self._given:
            return
        if self._problem:
            raise Invalid(f"create user namespace: {self._problem}")
        first = self._pool.next_free(set(self._given.values()), self._last)
        self._given[uid] = self._last = first
        data = to_file(first, self._pool.per_pod)
        try:
            await blocking.call_to_end(f"pod/{uid}", partial(write_atomic, self._file(uid), data, durable=True))
        except OSError as error:
            del self._given[uid]
            raise Transient(f"create user namespace: {error}") from error
        _log.info("pod has a user namespace", extra={"pod": str(ref_of(pod)), "uid": uid, "first_id": first})

    async def release(self, uid: PodUID) -> None:
        """Nothing of the pod runs any more: others may have its ids. Repeatable; raises Transient."""
        if uid not in self._given:
            return
        path = self._file(uid)
        try:
            await blocking.call_to_end(f"pod/{uid}", path.unlink, True)
        except OSError as error:
            raise Transient(f"cannot give the ids of pod {uid} back: {error}") from error
        self._given.pop(uid, None)

    def _require_support(self, handler: str) -> None:
        known = self._supported(handler)
        if known:
            return
        message = "can't set `spec.hostUsers: false`, runtime does not support user namespaces"
        if handler:
            message = (
                f'can\'t set `spec.hostUsers: false`, RuntimeClass handler "{handler}" does not support user namespaces'
            )
        raise Invalid(f"{message} (it needs Linux 5.19 or later, and a runtime that says it can)")

    def _read(self, uid: PodUID) -> int | None:
        try:
            return read_own(self._file(uid), _MAX_FILE, partial(from_file, pool=self._pool))
        except FileNotFoundError:
            return None


async def node_pool(per_pod: int) -> IdPool:
    """The ids that the user ``kubelet`` has been given for this, if there is that user and ``getsubids``; else all.

    Raises Invalid: there is the user, but no usable ids, or nobody can tell.
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
        raise Invalid(f"cannot find out the sub-ids of the user {_USER}: {error}") from error
    return parse_getsubids(uids.stdout.decode(), gids.stdout.decode(), per_pod)
