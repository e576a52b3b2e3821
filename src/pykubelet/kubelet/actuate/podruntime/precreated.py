"""Containers created before their turn, while an init container still runs; then they only have to be started.

They are nobody's business until then: statuses leave them out. An agent that was restarted does not know them as such;
for it they are attempts that never ran, and are replaced.
"""

from dataclasses import dataclass, replace

from pykubelet.kubelet.actuate.podruntime.describe import StartJob
from pykubelet.kubelet.types.ids import ContainerID, PodUID, SandboxID, ref_of
from pykubelet.kubelet.types.runtime import PodRuntimeStatus
from pykubelet.pb import runtime_v1_pb2 as pb


@dataclass(frozen=True, slots=True)
class PrecreatedContainer:
    """One such container."""

    id: ContainerID
    sandbox: SandboxID
    config: pb.ContainerConfig
    restart_count: int

    def fits(self, sandbox: SandboxID, config: pb.ContainerConfig) -> bool:
        """Whether it is what would be made now."""
        return self.sandbox == sandbox and self.config == config


class PrecreatedContainers:
    """All of them, by pod and name."""

    def __init__(self) -> None:
        self._made: dict[PodUID, dict[str, PrecreatedContainer]] = {}

    def note(self, job: StartJob, made: PrecreatedContainer) -> None:
        """It was created for that job."""
        self._made.setdefault(ref_of(job.pod).uid, {})[job.container.name] = made

    def take(self, job: StartJob) -> PrecreatedContainer | None:
        """The one that was made for the container; from now on it counts as any other."""
        return self._made.get(ref_of(job.pod).uid, {}).pop(job.container.name, None)

    def hide(self, status: PodRuntimeStatus) -> PodRuntimeStatus:
        """The status without them, as read just now; those that it does not show are gone."""
        here = {c.id for c in status.containers}
        made = {name: made for name, made in self._made.pop(status.ref.uid, {}).items() if made.id in here}
        if not made:
            return status
        self._made[status.ref.uid] = made
        hidden = {each.id for each in made.values()}
        return replace(status, containers=tuple(c for c in status.containers if c.id not in hidden))

    def forget(self, uid: PodUID) -> None:
        """The pod is gone from the runtime."""
        self._made.pop(uid, None)
