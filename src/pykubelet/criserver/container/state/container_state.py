"""A container in the memory of the server."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from pykubelet.base.transition_table import Life
from pykubelet.base.units import Seconds
from pykubelet.criserver.container.plan.lifecycle import LIFE_CYCLE
from pykubelet.criserver.container.state.calls_in_progress import CallsInProgress
from pykubelet.criserver.runtimes import Task
from pykubelet.criserver.spec.cdi_request import asks_for_devices
from pykubelet.criserver.types import ContainerID, ContainerPhase, ContainerRecord
from pykubelet.pb import runtime_v1_pb2 as pb


class Container:
    """The record, parsed request, lock and events of a container. The record is replaced, never modified."""

    def __init__(self, record: ContainerRecord, *, monotonic: Callable[[], Seconds]) -> None:
        """``monotonic``: the clock for its history."""
        self._record = record
        self._life = Life(LIFE_CYCLE, record.id, phase=record.phase, monotonic=monotonic)
        self.config = pb.ContainerConfig.FromString(record.config)
        """The parsed ``record.config``."""
        self.lock = asyncio.Lock()
        """Held by calls that change the phase."""
        self.log_lock = asyncio.Lock()
        """Held while its log is reopened, which one call at a time can do."""
        self.in_progress = CallsInProgress()
        """Its creation or start in progress."""
        self.ended = asyncio.Event()
        self.killed = False
        """This server has sent it SIGKILL."""
        self.launched = True
        """A launch may have left something: processes, a cgroup, OCI state."""
        self.list_entry = b""
        """Its serialised entry in lists; empty until a list needs it, and after each change of the record."""
        if record.phase in (ContainerPhase.EXITED, ContainerPhase.REMOVING):
            self.ended.set()

    @property
    def image_mounts(self) -> list[ContainerID]:
        """The snapshot names of the images that are mounted for it."""
        mounts = enumerate(self.config.mounts)
        names = [ContainerID(f"{self.id}-image-{index}") for index, mount in mounts if mount.HasField("image")]
        started = self._record.phase in (ContainerPhase.RUNNING, ContainerPhase.EXITED)
        return [*names, checkpoint_mount(self.id)] if self._record.restore and not started else names

    def task(self, bundles: Path) -> Task:
        """Return it as its runtime knows it. ``bundles``: the directory of all bundles."""
        record = self._record
        return Task(
            id=record.id,
            sandbox=record.sandbox_id,
            bundle=bundles / record.id,
            cgroup=record.cgroup,
            process=record.process,
            monitor=record.monitor,
            # The OCI runtime must run the hooks of CDI devices.
            hooks=asks_for_devices(self.config),
            restore=Path(record.restore) if record.restore else None,
        )

    @property
    def record(self) -> ContainerRecord:
        return self._record

    @record.setter
    def record(self, record: ContainerRecord) -> None:
        """Permanent, as of ``check``."""
        if record.phase is not self._record.phase:
            self._life.enter(record.phase)
        if record.config != self._record.config:
            self.config = pb.ContainerConfig.FromString(record.config)
        self._record = record
        self.list_entry = b""

    def check(self, record: ContainerRecord) -> None:
        """Check that this record may follow. Permanent, with its history: it is in a phase that cannot follow."""
        if record.phase is not self._record.phase:
            self._life.check(record.phase)

    def moved(self, phase: ContainerPhase, **changes: object) -> ContainerRecord:
        """Return its record in another phase. Permanent, with its history: the transition is impossible."""
        self._life.check(phase)
        return replace(self._record, phase=phase, **changes)

    @property
    def id(self) -> ContainerID:
        return self._record.id

    @property
    def visible(self) -> bool:
        """Whether clients may see it: its creation is finished, and it is not being removed.

        A container whose removal failed becomes visible again, so that its client retries.
        """
        match self._record.phase:
            case ContainerPhase.MAKING:
                return False
            case ContainerPhase.REMOVING:
                return not self.lock.locked()
            case _:
                return True

    @property
    def leftover(self) -> bool:
        """Its creation or removal failed, and no call is working on it now."""
        return self.unfinished and not self.in_progress.busy and not self.lock.locked()

    @property
    def unfinished(self) -> bool:
        """Its creation or removal is in progress, or failed."""
        return self._record.phase in (ContainerPhase.MAKING, ContainerPhase.REMOVING)

    @property
    def running(self) -> bool:
        return self._record.phase is ContainerPhase.RUNNING


def checkpoint_mount(container: ContainerID) -> ContainerID:
    """The snapshot name of the checkpoint image that a container is restored from."""
    return ContainerID(f"{container}-checkpoint")
