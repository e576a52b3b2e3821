"""Interfaces that the pod runtime uses; ``actuate/assembly.py`` passes the implementations."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from pykubelet.base.http.http_get import HttpGet
from pykubelet.base.units import Bytes, Seconds
from pykubelet.kubelet.actuate.actuate_types import HostMount, ImageFacts
from pykubelet.kubelet.actuate.cgroups.plan.linux_resources import LinuxResources
from pykubelet.kubelet.actuate.cri_messages.config_interfaces import ConfigReader
from pykubelet.kubelet.actuate.cri_messages.config_types import (
    EnvFile,
    EnvFileValues,
    HostDevice,
    Resolver,
    SecurityConfig,
    UserNamespace,
)
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.ids import ContainerID, PodUID, SandboxID
from pykubelet.kubelet.types.podspec import AnyContainer
from pykubelet.kubelet.types.reports.work_meter import WorkMeter
from pykubelet.kubelet.types.runtime import ContainerKind
from pykubelet.kubelet.types.sysctls import SysctlAllowlist
from pykubelet.linux.cgroups import CgroupResources
from pykubelet.models.core_v1 import Pod
from pykubelet.models.scalars import Quantity
from pykubelet.pb import runtime_v1_pb2 as pb


class Cri(Protocol):
    """CRI calls of the pod runtime (``actuate.cri.CriClient``); errors are those of ``actuate.cri.errors``."""

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
        """Pull the image if needed; return the runtime's reference to it. Raises ``ImageError``."""

    async def present(self, container: AnyContainer) -> str | None:
        """Return the result that ``ensure`` would have without a pull; None if it would pull. Raises base errors."""

    async def image_facts(self, ref: str) -> ImageFacts:
        """User, size and names of an image; ``ref`` is what ``ensure`` returned."""


class Volumes(Protocol):
    """The volume manager (actuate/volumes)."""

    async def container_mounts(
        self, pod: Pod, container: AnyContainer, env: Mapping[str, str]
    ) -> tuple[HostMount, ...]:
        """The mounts of a container, with subPaths created and bind-mounted. Raises VolumeError, ImageError."""

    def container_devices(self, pod: Pod, container: AnyContainer) -> tuple[HostDevice, ...]:
        """Host devices for the container's ``volumeDevices``. Raises VolumeError."""

    def extra_groups(self, pod: Pod) -> tuple[int, ...]:
        """Supplemental group ids that the pod's volumes require."""

    async def read_files(self, pod: Pod, files: Mapping[EnvFile, Collection[str]]) -> Mapping[EnvFile, EnvFileValues]:
        """Variables with these names of files in the pod's volumes; files that cannot be read are left out."""


class Resources(Protocol):
    """Cgroups, limits and weights (actuate/cgroups)."""

    def pod_parent(self, pod: Pod) -> str:
        """The pod's cgroup as the runtime names it; empty if pods have no cgroup of their own."""

    def container_resources(self, pod: Pod, container: AnyContainer) -> LinuxResources:
        """Limits, weights and OOM score of a container."""

    async def pod_limits(self, pod: Pod) -> CgroupResources | None:
        """Current CPU and memory limits of the pod's cgroup; None if the pod has no cgroup. Raises base errors."""

    def wanted_limits(self, pod: Pod) -> CgroupResources:
        """Limits of the pod's cgroup by its spec, `UNLIMITED` where nothing is set. Raises Invalid."""

    async def set_pod_limits(self, pod: Pod, limits: CgroupResources) -> None:
        """Write the limits that are not None to the pod's cgroup. Raises base errors."""

    def resized(self, pod: Pod) -> None:
        """Note that the pod's cgroup has all its limits by the spec."""

    async def pod_memory(self, pod: Pod) -> Bytes | None:
        """Memory usage of the pod in bytes, with page cache; None if memory is not accounted. Raises base errors."""

    def pod_resources(self, pod: Pod) -> tuple[LinuxResources, LinuxResources | None]:
        """The sum over the pod's containers, and the overhead of its RuntimeClass (None: no overhead)."""


class Users(Protocol):
    """User namespaces (actuate/userns)."""

    async def allocate(self, pod: Pod, handler: str) -> None:
        """Allocate an id range for the pod if it has a user namespace; repeatable. Raises base errors."""

    def given(self, pod: Pod) -> UserNamespace | None:
        """The id range of the pod; None if the pod uses the user namespace of the node."""


class PodFiles(Protocol):
    """Paths of a pod's files (``actuate.volumes.PodDirs``)."""

    def etc_hosts(self, uid: PodUID) -> Path:
        """The pod's /etc/hosts; its directory exists."""

    def resources(self, uid: PodUID) -> Path:
        """The pod's allocation file; its directory may be missing."""

    def restarts(self, uid: PodUID) -> Path:
        """File of the requested restarts that are not done yet."""

    def container(self, uid: PodUID, container: str) -> Path:
        """Directory of a container's termination logs; it may be missing."""

    def termination_log(self, uid: PodUID, container: str) -> Path:
        """Create an empty termination log for one attempt. Blocks; raises OSError."""


class Node(Protocol):
    """Facts of the node and the cluster for pod configurations; read again for every start."""

    def name(self) -> str:
        """The node's name in the cluster."""

    def ips(self) -> tuple[str, ...]:
        """The node's addresses, primary first."""

    def allocatable(self) -> Mapping[str, Quantity]:
        """Node allocatable: the resources that pods may use."""

    def resolver(self) -> Resolver:
        """The node's resolv.conf and the cluster's DNS."""

    def sysctls(self) -> SysctlAllowlist:
        """Kernel parameters that pods may set."""

    def security(self) -> SecurityConfig:
        """Security defaults of the node for containers."""

    def runtime_handler(self, pod: Pod) -> str:
        """Runtime handler of the pod's RuntimeClass; empty for the default. Raises NotFound for an unknown class."""

    def services(self, pod: Pod) -> Mapping[str, str]:
        """Service environment variables of the pod; empty without a cluster."""


class HttpGetter(Protocol):
    """Sends the request of a lifecycle hook (``base.http.http_get``)."""

    async def __call__(self, request: HttpGet) -> None:
        """Return when a response has arrived, whatever its status.

        Raises ``PykubeletError`` if there was no response, ``PlainHttpAnswer`` if the server answered an HTTPS request
        without TLS.
        """


class PodInputs(Struct, frozen=True, kw_only=True):
    """The sources of a pod's CRI configuration, besides its image."""

    volumes: Volumes
    files: PodFiles
    resources: Resources
    node: Node
    objects: ConfigReader
    users: Users


class PodRuntimeDeps(Struct, frozen=True, kw_only=True):
    """Dependencies of the pod runtime."""

    cri: Cri
    images: Images
    inputs: PodInputs
    http: HttpGetter
    telemetry: Telemetry[WorkMeter]
