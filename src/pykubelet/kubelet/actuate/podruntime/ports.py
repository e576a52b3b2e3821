"""What the pod runtime needs of others; each is handed to it by ``kubelet/main.py``."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pykubelet.base.clock import Clock
from pykubelet.base.units import Bytes, Seconds
from pykubelet.kubelet.actuate.criconfig.ports import ConfigReader
from pykubelet.kubelet.actuate.criconfig.sysctls import SysctlAllowlist
from pykubelet.kubelet.actuate.criconfig.types import EnvFile, HostDevice, Resolver, SecurityConfig, UserNamespace
from pykubelet.kubelet.actuate.resources.linux_resources import LinuxResources
from pykubelet.kubelet.actuate.types import HostMount, ImageFacts
from pykubelet.kubelet.types.events import EventRecorder
from pykubelet.kubelet.types.ids import ContainerID, PodUID, SandboxID
from pykubelet.kubelet.types.podspec import AnyContainer
from pykubelet.kubelet.types.runtime import ContainerKind
from pykubelet.kubelet.types.timeline import Timeline
from pykubelet.kubelet.types.work import NoMeter, WorkMeter
from pykubelet.linux.cgroups import CgroupResources
from pykubelet.models.core_v1 import Pod
from pykubelet.models.scalars import Quantity
from pykubelet.pb import runtime_v1_pb2 as pb


class Cri(Protocol):
    """The part of ``actuate.cri.CriClient`` that is used here; errors are those of ``actuate.cri.errors``."""

    async def run_pod_sandbox(self, config: pb.PodSandboxConfig, runtime_handler: str = "") -> SandboxID: ...

    async def stop_pod_sandbox(self, sandbox: SandboxID) -> None: ...

    async def remove_pod_sandbox(self, sandbox: SandboxID) -> None: ...

    async def pod_sandbox_status(self, sandbox: SandboxID, *, verbose: bool = False) -> pb.PodSandboxStatusResponse: ...

    async def list_pod_sandboxes(self, filter: pb.PodSandboxFilter | None = None) -> list[pb.PodSandbox]: ...

    async def create_container(
        self, sandbox: SandboxID, config: pb.ContainerConfig, sandbox_config: pb.PodSandboxConfig
    ) -> ContainerID: ...

    async def start_container(self, container: ContainerID) -> None: ...

    async def stop_container(self, container: ContainerID, grace: Seconds) -> None: ...

    async def remove_container(self, container: ContainerID) -> None: ...

    async def list_containers(self, filter: pb.ContainerFilter | None = None) -> list[pb.Container]: ...

    async def container_status(
        self, container: ContainerID, *, verbose: bool = False
    ) -> pb.ContainerStatusResponse: ...

    async def update_container_resources(
        self, container: ContainerID, resources: pb.LinuxContainerResources
    ) -> None: ...

    async def update_pod_sandbox_resources(
        self,
        sandbox: SandboxID,
        overhead: pb.LinuxContainerResources | None,
        resources: pb.LinuxContainerResources | None,
    ) -> None: ...

    async def list_container_stats(self, filter: pb.ContainerStatsFilter | None = None) -> list[pb.ContainerStats]: ...

    async def exec_sync(
        self, container: ContainerID, command: Sequence[str], timeout: Seconds = 0.0
    ) -> pb.ExecSyncResponse: ...


class Images(Protocol):
    """The image manager (actuate/images)."""

    async def ensure(self, pod: Pod, container: AnyContainer, kind: ContainerKind) -> str:
        """Make the image present; gives the runtime's reference to it. Raises ``ImageError``."""

    async def present(self, container: AnyContainer) -> str | None:
        """The reference that ``ensure`` would give without a pull; None if it would pull. Raises base errors."""

    async def image_facts(self, ref: str) -> ImageFacts:
        """What the runtime says about an image that ``ensure`` gave."""


class Volumes(Protocol):
    """The volume manager (actuate/volumes)."""

    async def container_mounts(
        self, pod: Pod, container: AnyContainer, env: Mapping[str, str]
    ) -> tuple[HostMount, ...]:
        """The mounts of a container, sub paths made and opened safely. Raises VolumeError, ImageError."""

    def container_devices(self, pod: Pod, container: AnyContainer) -> tuple[HostDevice, ...]:
        """Devices of the pod's volumes. Raises VolumeError."""

    def extra_groups(self, pod: Pod) -> tuple[int, ...]:
        """Groups that the pod's volumes ask for."""

    async def read_files(self, pod: Pod, files: Iterable[EnvFile]) -> Mapping[EnvFile, str]:
        """Contents of files in the pod's volumes; those that cannot be read are left out."""


class Resources(Protocol):
    """Cgroups, limits and weights (actuate/resources)."""

    def pod_parent(self, pod: Pod) -> str:
        """The pod's cgroup, in the runtime's spelling; empty if pods have none of their own."""

    def container_resources(self, pod: Pod, container: AnyContainer) -> LinuxResources:
        """Limits, weights and OOM score of a container."""

    async def pod_limits(self, pod: Pod) -> CgroupResources | None:
        """CPU and memory of the pod's cgroup as they are now; None if it has none of its own. Raises base errors."""

    def wanted_limits(self, pod: Pod) -> CgroupResources:
        """What they shall be, `UNLIMITED` where nothing is set. Raises Invalid."""

    async def set_pod_limits(self, pod: Pod, limits: CgroupResources) -> None:
        """Write those that are not None. Raises base errors."""

    def resized(self, pod: Pod) -> None:
        """All of the pod's cgroup is as wanted now."""

    async def pod_memory(self, pod: Pod) -> Bytes | None:
        """What the pod uses of memory, page cache included; None if nobody counts it. Raises base errors."""

    def pod_resources(self, pod: Pod) -> tuple[LinuxResources, LinuxResources | None]:
        """The sum over the pod's containers, and what its runtime class needs besides."""


class Users(Protocol):
    """User namespaces (actuate/userns)."""

    async def allot(self, pod: Pod, handler: str) -> None:
        """See to it that the pod has ids of its own, if it wants any. Raises base errors."""

    def given(self, pod: Pod) -> UserNamespace | None:
        """The pod's ids; None if it uses the node's."""


class PodFiles(Protocol):
    """Where a pod's files are (``actuate.volumes.PodDirs``)."""

    def etc_hosts(self, uid: PodUID) -> Path:
        """The pod's /etc/hosts; its directory exists."""

    def resources(self, uid: PodUID) -> Path:
        """The file that says what the pod was allotted; its directory may be missing."""

    def container(self, uid: PodUID, container: str) -> Path:
        """The directory of a container's termination logs; it may be missing."""

    def termination_log(self, uid: PodUID, container: str) -> Path:
        """Make an empty termination log for one attempt. Blocks; raises OSError."""


class Node(Protocol):
    """Facts of the node and the cluster that pods are made from; read anew for every start."""

    def name(self) -> str:
        """The node's name in the cluster."""

    def ips(self) -> tuple[str, ...]:
        """The node's addresses, primary first."""

    def allocatable(self) -> Mapping[str, Quantity]:
        """What pods may use of the node."""

    def resolver(self) -> Resolver:
        """The node's resolv.conf and the cluster's DNS."""

    def sysctls(self) -> SysctlAllowlist:
        """Kernel parameters that pods may set."""

    def security(self) -> SecurityConfig:
        """The node's part in containers' security settings."""

    def runtime_handler(self, pod: Pod) -> str:
        """The handler of the pod's RuntimeClass; empty for the default. NotFound if there is no such class."""

    def services(self, pod: Pod) -> Mapping[str, str]:
        """Environment variables that point to services; empty without a cluster."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A GET of a lifecycle hook."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()


class HttpGetter(Protocol):
    """Makes the request of a hook (``base.http_get``)."""

    async def __call__(self, request: HttpRequest) -> None:
        """Returns when an answer came, whatever it is.

        Raises ``PykubeletError`` when none did, ``PlainHttpAnswer`` when one came without the TLS that was asked for.
        """


@dataclass(frozen=True, slots=True)
class PodRuntimeDeps:
    """All that the pod runtime acts through."""

    cri: Cri
    images: Images
    volumes: Volumes
    files: PodFiles
    resources: Resources
    node: Node
    objects: ConfigReader
    http: HttpGetter
    events: EventRecorder
    timeline: Timeline
    clock: Clock
    users: Users
    meter: WorkMeter = NoMeter()
