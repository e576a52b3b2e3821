"""Inputs of a status computation, and what the status manager keeps of it."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from pykubelet.base.units import Seconds
from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.kubelet.types.outcome import Failure
from pykubelet.kubelet.types.probes import ContainerProbes
from pykubelet.kubelet.types.resources.resize import NOT_RESIZING, ResizeState
from pykubelet.models.core_v1 import Pod, PodCondition, PodStatus
from pykubelet.models.scalars import Time

PENDING: Final = "Pending"
RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
TERMINAL: Final = frozenset({SUCCEEDED, FAILED})
"""Terminal phases, which a pod never leaves."""


class StatusContext(Struct, frozen=True):
    """Input of a status besides the pod's spec and the runtime's view of it."""

    now: Seconds
    """Unix time; used for new conditions and for the pod's start time."""
    previous: PodStatus | None = None
    """The status reported last; None makes the one in the pod object the basis (empty for a static pod)."""
    probes: Mapping[ContainerID, ContainerProbes] = field(default_factory=dict)
    waiting: Mapping[str, Failure] = field(default_factory=dict)
    """By container name: why the last attempt to start it failed."""
    host_ips: tuple[str, ...] = ()
    """The node's addresses, primary first, at most one per family."""
    terminating: bool = False
    """The pod is being stopped or has been: nothing starts again."""
    stopped: bool = False
    """All containers have been stopped for good: how they ended decides between Succeeded and Failed."""
    terminal_reason: str = ""
    """Set when the agent itself ends the pod (``Evicted``, ``DeadlineExceeded``): the phase is Failed, unless the pod
    is stopped for the node's sake and all its containers end with 0."""
    terminal_message: str = ""
    disruption: PodCondition | None = None
    """The DisruptionTarget condition, if the agent ends the pod for the node's sake."""
    runtime_name: str = "containerd"
    """The runtime's name as it gives it, the scheme of container ids in the API."""
    resize: ResizeState = NOT_RESIZING
    recursive_read_only: bool = False
    """Whether the pod's runtime handler can mount recursively read-only."""
    started: Seconds | None = None
    """Unix time of the pod's start, if an earlier run of the agent has recorded it."""


class StatusEntry(Struct, frozen=True):
    """The status manager's record of one pod."""

    pod: Pod
    """The pod object as its worker last had it; its own ``status`` is not kept up to date."""
    status: PodStatus
    """The status as computed; the agent itself goes by it."""
    published: PodStatus
    """The status that others see: its phase becomes terminal when no container can run any more."""
    version: int
    """Grows with every change of any pod."""
    finished: bool = False
    """All its containers have been stopped for good, and its volumes and its cgroup have been released."""
    terminating_since: Time | None = None
    """Time at which the agent began to stop the pod."""

    @property
    def merged(self) -> Pod:
        """Return the pod object with this status.

        The API server does not mark static pods as deleted, so one that is being stopped gets its deletion time here. A
        pod that has ended is not shown as terminating, although its containers are still being removed.
        """
        meta = self.pod.metadata
        deletion = meta.deletion_timestamp
        if deletion is None and self.published.phase not in TERMINAL:
            deletion = self.terminating_since
        created = meta.creation_timestamp or self.published.start_time
        meta = replace(meta, deletion_timestamp=deletion, creation_timestamp=created)
        return Pod(api_version="v1", kind="Pod", metadata=meta, spec=self.pod.spec, status=self.published)
