"""Pre-created containers: created while an init container still runs, so that later they only have to be started.

Pod statuses leave them out until they are started. A restarted agent does not know which containers were pre-created:
it sees attempts that never ran, and replaces them.
"""

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.kubelet.actuate.podruntime.start.describe_container import StartJob
from pykubelet.kubelet.types.ids import ContainerID, PodUID, SandboxID, ref_of
from pykubelet.kubelet.types.runtime import PodRuntimeStatus
from pykubelet.pb import runtime_v1_pb2 as pb


class PrecreatedContainer(Struct, frozen=True):
    """A pre-created container and what it was created from."""

    id: ContainerID
    sandbox: SandboxID
    config: pb.ContainerConfig
    restart_count: int

    def fits(self, sandbox: SandboxID, config: pb.ContainerConfig) -> bool:
        """Whether the container equals the one that would be created now."""
        return self.sandbox == sandbox and self.config == config


class PrecreatedContainers:
    """Table of the pre-created containers, by pod and container name."""

    def __init__(self) -> None:
        self._made: dict[PodUID, dict[str, PrecreatedContainer]] = {}

    def add(self, job: StartJob, made: PrecreatedContainer) -> None:
        """Record a container that was pre-created for ``job``."""
        self._made.setdefault(ref_of(job.pod).uid, {})[job.container.name] = made

    def take(self, job: StartJob) -> PrecreatedContainer | None:
        """Remove and return the container pre-created for ``job``; statuses show it from now on."""
        return self._made.get(ref_of(job.pod).uid, {}).pop(job.container.name, None)

    def hide(self, status: PodRuntimeStatus) -> PodRuntimeStatus:
        """Return the pod status without pre-created containers.

        ``status`` has just been read: pre-created containers that are missing from it are forgotten.
        """
        existing = {c.id for c in status.containers}
        made = {name: made for name, made in self._made.pop(status.ref.uid, {}).items() if made.id in existing}
        if not made:
            return status
        self._made[status.ref.uid] = made
        hidden = {each.id for each in made.values()}
        return replace(status, containers=tuple(c for c in status.containers if c.id not in hidden))

    def forget(self, uid: PodUID) -> None:
        """Forget a pod that was removed from the runtime."""
        self._made.pop(uid, None)
