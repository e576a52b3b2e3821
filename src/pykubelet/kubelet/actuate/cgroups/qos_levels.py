"""The cgroups above those of pods: the root of all pods and one for each QoS class, with their weights and limits.

start  creates them and applies the reservations of daemons
run    keeps their weights and protected memory up to date as pods come and go
"""

import asyncio
import logging
from typing import Final

from msgspec import Struct

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.callbacks import Callbacks
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.errors import Permanent, PykubeletError, Transient
from pykubelet.base.units import Bytes, MilliCPU, Seconds
from pykubelet.kubelet.actuate.cgroups.cgroup_types import PodCgroupConfig
from pykubelet.kubelet.actuate.cgroups.plan.linux_resources import MIN_SHARES, burstable_shares, milli_cpu_to_shares
from pykubelet.kubelet.actuate.cgroups.plan.memory_qos import Protection, level_protection
from pykubelet.kubelet.actuate.cgroups.reserved import enforce_reserved
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.resources import cgroup_names as names
from pykubelet.kubelet.types.resources.qos import QosClass
from pykubelet.linux.cgroups import UNLIMITED, CgroupDriver, CgroupResources

_log = logging.getLogger(__name__)

_DEBOUNCE: Seconds = 0.2
_REFRESH: Seconds = 60.0
_DEADLINE: Seconds = 30.0
_ENFORCED: Final = "Updated Node Allocatable limit across pods"


class QosRequests(Struct, frozen=True):
    """Values of one pod that the settings of the QoS classes depend on."""

    qos: QosClass
    cpu: MilliCPU
    memory: Bytes


class QosLevels:
    """Manages the cgroups of the root and of the QoS classes. `cgroups` None: they cannot be used, see `why_not`."""

    def __init__(
        self, *, cgroups: CgroupDriver | None, config: PodCgroupConfig, clock: Clock, why_not: str | None = None
    ) -> None:
        self._cgroups = cgroups
        self._config = config
        self._clock = clock
        self._problem = why_not
        self._root = names.root_name(config.cgroup_root)
        self._requests: dict[PodUID, QosRequests] = {}
        self._dirty = asyncio.Event()
        self.unenforced: str | None = None
        """Event text with the reason why the limits of all pods are not written yet; None: they are, or are unset."""
        self.retried: Final = Callbacks[[bool, str]]()
        """Called with whether a retry to write them worked, and the text of an event; not after the first success."""
        self._guard = Guard("cgroups.levels", clock.monotonic)

    @property
    def problem(self) -> str | None:
        """The reason why pods get no cgroup of their own, and the remedy, for doctor; None if they get one."""
        return self._problem

    @property
    def cgroups(self) -> CgroupDriver | None:
        """The driver; None if pods get no cgroup of their own."""
        return self._cgroups if self._problem is None and self._config.per_qos else None

    async def start(self) -> list[str]:
        """Create the cgroups of the root and of the QoS classes, and apply the reservations of daemons to theirs.

        Returns what was enforced, as the texts of events. Without usable cgroups the agent runs on (see `problem`),
        unless reservations are to be enforced: then that raises a base error.
        """
        enforced = []
        if self._problem is None and self._cgroups is not None and self._config.per_qos:
            try:
                await blocking.call_to_end("cgroups", self._write_levels, deadline=_DEADLINE)
                enforced.append(_ENFORCED)
            except Transient as error:
                # It may be temporary (systemd is busy), and running without cgroups would last until the next restart.
                _log.warning("cgroup limits not set: retrying", extra={"error": str(error)})
                self._dirty.set()
                self.unenforced = self._not_enforced(error)
            except PykubeletError as error:
                self._problem = str(error)
                self.unenforced = self._not_enforced(error)
        if self._problem is not None:
            _log.error("cgroups unavailable: pods get no cgroup of their own", extra={"error": self._problem})
        for reserved in self._config.reserved:
            cgroups = self.cgroups
            if cgroups is None:
                raise Permanent(f"enforceNodeAllocatable: cgroups cannot be used: {self._problem}")
            await blocking.call_to_end(
                "cgroups", enforce_reserved, cgroups, reserved, self._config.style, deadline=_DEADLINE
            )
            enforced.append(f"Updated limits on {reserved.title} reserved cgroup {reserved.path}")
        return enforced

    async def run(self) -> None:
        """Write the weights of the QoS classes when pods are added or removed, and once a minute."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._refresh(), name="cgroups-refresh")
            group.create_task(self._follow_pods(), name="cgroups-qos")

    def note(self, uid: PodUID, requests: QosRequests) -> None:
        """Take the requests of a pod that is added or resized into account."""
        if self._requests.get(uid) != requests:
            self._requests[uid] = requests
            self._dirty.set()

    def forget(self, uid: PodUID) -> None:
        """Take the pod's requests out of account. Idempotent."""
        if self._requests.pop(uid, None) is not None:
            self._dirty.set()

    def protected(self) -> Protection | None:
        """Return the memory that is protected for Guaranteed (min) and for Burstable pods (low), as in the metrics of
        the Go kubelet; None without memory QoS."""
        qos = self._config.policy.memory_qos
        if qos is None:
            return None
        levels = level_protection(((each.qos, each.memory) for each in self._requests.values()), qos)
        low = levels[QosClass.BURSTABLE].low or Bytes(0)
        return Protection(min=Bytes((levels[QosClass.GUARANTEED].min or 0) - low), low=low)

    async def _refresh(self) -> None:
        while True:
            await self._clock.sleep(_REFRESH)
            self._dirty.set()

    async def _follow_pods(self) -> None:
        while True:
            await self._dirty.wait()
            # Many pods that start at the same time cause one write.
            await self._clock.sleep(_DEBOUNCE)
            self._dirty.clear()
            if self.cgroups is None:
                continue
            with self._guard.item(self._path(self._root)) as attempt:
                await blocking.call_to_end("cgroups", self._write_levels, deadline=_DEADLINE)
            if self.unenforced is not None:
                self.unenforced = None if attempt.error is None else self._not_enforced(attempt.error)
                self.retried(attempt.error is None, self.unenforced or _ENFORCED)

    def _not_enforced(self, error: Exception) -> str:
        return f'Failed to update Node Allocatable Limits "{self._path(self._root)}": {error}'

    def _write_levels(self) -> None:
        """Write the settings of the root and of the QoS classes. Guaranteed pods are directly in the root."""
        assert self._cgroups is not None
        limits = self._config.root_limits
        requests = tuple(self._requests.values())
        protected = level_protection(((each.qos, each.memory) for each in requests), self._config.policy.memory_qos)
        levels = {
            self._root: CgroupResources(
                cpu_shares=milli_cpu_to_shares(limits.cpu),
                memory_max=Bytes(UNLIMITED) if limits.memory is None else limits.memory,
                memory_min=protected[QosClass.GUARANTEED].min,
                pids_max=UNLIMITED if limits.pids is None else limits.pids,
            ),
            names.qos_name(self._root, QosClass.BURSTABLE): CgroupResources(
                cpu_shares=burstable_shares(each.cpu for each in requests if each.qos is QosClass.BURSTABLE),
                memory_low=protected[QosClass.BURSTABLE].low,
            ),
            names.qos_name(self._root, QosClass.BEST_EFFORT): CgroupResources(cpu_shares=MIN_SHARES),
        }
        for name, resources in levels.items():
            self._cgroups.create(self._path(name), resources)

    def _path(self, name: names.CgroupName) -> str:
        return names.to_path(name, self._config.style)
