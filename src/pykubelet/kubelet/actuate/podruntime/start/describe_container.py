"""Collects the inputs of a container's CRI configuration from node, volumes, objects and files.

The configuration itself is built by :mod:`pykubelet.kubelet.actuate.cri_messages`, which has no effects.
"""

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from msgspec import Struct

from pykubelet.base.concurrency import blocking
from pykubelet.kubelet.actuate.actuate_types import HostMount
from pykubelet.kubelet.actuate.cri_messages.config_types import (
    ContainerContext,
    DownwardContext,
    EnvContext,
    container_error,
)
from pykubelet.kubelet.actuate.cri_messages.container import container_config
from pykubelet.kubelet.actuate.cri_messages.environment.env import container_environment, env_files
from pykubelet.kubelet.actuate.cri_messages.hosts import hosts_mount, managed_hosts, node_hosts, wants_hosts
from pykubelet.kubelet.actuate.cri_messages.names import pod_hostname
from pykubelet.kubelet.actuate.podruntime.plan.restart import current
from pykubelet.kubelet.actuate.podruntime.podruntime_interfaces import Images, PodInputs
from pykubelet.kubelet.actuate.podruntime.podruntime_types import PodRuntimeConfig
from pykubelet.kubelet.actuate.podruntime.start.pod_files import write_hosts
from pykubelet.kubelet.types.ids import ref_of
from pykubelet.kubelet.types.podspec import AnyContainer
from pykubelet.kubelet.types.runtime import ContainerKind, PodRuntimeStatus, SandboxStatus
from pykubelet.models.core_v1 import Pod
from pykubelet.pb import runtime_v1_pb2 as pb


class StartJob(Struct, frozen=True):
    """Container to start, with its pod and sandbox."""

    pod: Pod
    container: AnyContainer
    kind: ContainerKind
    status: PodRuntimeStatus
    """Status at the beginning of the sync, without attempts created since."""
    sandbox: SandboxStatus
    sandbox_config: pb.PodSandboxConfig


class ContainerDescriber:
    """Builds the CRI configuration for one start of a container, and creates the files that it mounts."""

    def __init__(self, *, inputs: PodInputs, images: Images, config: PodRuntimeConfig) -> None:
        self._inputs = inputs
        self._images = images
        self._node_hosts = Path(config.node_hosts)

    async def describe(
        self, job: StartJob, image_ref: str, restart_count: int, before: pb.ContainerConfig | None = None
    ) -> pb.ContainerConfig:
        """Build the configuration. Files of a configuration built ``before`` for the same start are reused.

        Raises ConfigError, VolumeError, ImageError (image volumes), another base error, or OSError.
        """
        pod, container = job.pod, job.container
        env = await self._environment(job)
        mounts = await self._inputs.volumes.container_mounts(pod, container, env)
        mounts += await blocking.call(f"pod/{ref_of(job.pod).uid}", self._own_mounts, job, before)
        context = ContainerContext(
            image_ref=image_ref,
            image=await self._images.image_facts(image_ref),
            env=env,
            restart_count=restart_count,
            mounts=mounts,
            devices=self._inputs.volumes.container_devices(pod, container),
            extra_groups=self._inputs.volumes.extra_groups(pod),
            resources=self._inputs.resources.container_resources(pod, container),
            security=self._inputs.node.security(),
            target_id=_target_id(job),
            user_namespace=self._inputs.users.given(pod),
        )
        return container_config(pod, container, job.kind, context)

    async def _environment(self, job: StartJob) -> Mapping[str, str]:
        node = self._inputs.node
        wanted = env_files(job.container)
        files = await self._inputs.volumes.read_files(job.pod, wanted) if wanted else {}
        downward = DownwardContext(
            node_name=node.name(),
            host_ips=node.ips(),
            pod_ips=job.sandbox.ips,
            allocatable=node.allocatable(),
        )
        services = node.services(job.pod)
        context = EnvContext(downward=downward, objects=self._inputs.objects, services=services, files=files)
        return container_environment(job.pod, job.container, context)

    def _own_mounts(self, job: StartJob, before: pb.ContainerConfig | None) -> tuple[HostMount, ...]:
        """Create and mount the files that the agent itself provides: /etc/hosts and the termination log."""
        files, ref, container = self._inputs.files, ref_of(job.pod), job.container
        mounts: list[HostMount] = []
        if wants_hosts(job.pod, container, job.sandbox.ips):
            path = files.etc_hosts(ref.uid)
            write_hosts(path, self._hosts(job))
            mounts.append(hosts_mount(str(path)))
        if container.termination_message_path:
            inside = PurePosixPath("/") / container.termination_message_path
            known = (
                (mount.host_path for mount in before.mounts if mount.container_path == str(inside)) if before else ()
            )
            log = next(iter(known), None) or str(files.termination_log(ref.uid, container.name))
            mounts.append(HostMount(str(inside), log, selinux_relabel=True, name="termination-log"))
        return tuple(mounts)

    def _hosts(self, job: StartJob) -> bytes:
        spec = job.pod.spec
        if spec.host_network:
            return node_hosts(self._node_hosts.read_bytes(), spec.host_aliases)
        hostname = pod_hostname(job.pod, self._inputs.node.resolver().cluster_domain)
        return managed_hosts(job.sandbox.ips, hostname, spec.host_aliases)


def _target_id(job: StartJob) -> str:
    """Id of the target container of an ephemeral container; empty for none."""
    name = getattr(job.container, "target_container_name", "")
    if not name:
        return ""
    target = current(job.status, name)
    if target is None:
        raise container_error(f"unable to find target container {name}")
    return target.id
