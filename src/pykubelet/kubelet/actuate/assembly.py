"""Composes this stage: images, volumes, cgroups, user namespaces, and the pod runtime that uses them.

``kubelet/compose/actuate.py`` calls :func:`build_actuators` once.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from pykubelet.base.clock import Clock
from pykubelet.base.units import Bytes
from pykubelet.kubelet.actuate.cgroups import (
    PodCgroupConfig,
    PodCgroupManager,
    PolicyConfig,
    check_policy,
    node_policy,
    open_manager,
    policy_config,
)
from pykubelet.kubelet.actuate.cgroups.reserved import check_reserved
from pykubelet.kubelet.actuate.cluster_interfaces import ActuatorMetrics, ClusterInputs, ImageRecorder
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.actuate.cri_messages.config_interfaces import ConfigReader
from pykubelet.kubelet.actuate.cri_messages.config_types import SecurityConfig
from pykubelet.kubelet.actuate.host import NodeFacts, NodeOptions, read_machine, reservations
from pykubelet.kubelet.actuate.host.enforcement import reserved_cgroups, root_limits
from pykubelet.kubelet.actuate.images import (
    CredentialPlugins,
    ImageConfig,
    ImageDeps,
    ImageManager,
    NodeCredentials,
    PluginDeps,
    PulledImages,
)
from pykubelet.kubelet.actuate.images.image_gc import GcDeps, ImageGc, disk_use
from pykubelet.kubelet.actuate.images.plan.image_gc import ImageGcPolicy
from pykubelet.kubelet.actuate.images.plan.pull_records import Policy, Verification
from pykubelet.kubelet.actuate.logs import LogRotation, RotationConfig
from pykubelet.kubelet.actuate.pod_resources import PodResources, PodResourcesDeps
from pykubelet.kubelet.actuate.podruntime import PodInputs, PodRuntime, PodRuntimeConfig, PodRuntimeDeps
from pykubelet.kubelet.actuate.podruntime.plan.crashloop import crash_delays
from pykubelet.kubelet.actuate.podruntime.podruntime_interfaces import HttpGetter
from pykubelet.kubelet.actuate.podruntime.start.start_slots import slot_count
from pykubelet.kubelet.actuate.userns import IdRangeManager, UserNamespaceConfig
from pykubelet.kubelet.actuate.volumes import PodDirs, VolumeConfig, VolumeDeps, VolumeManager
from pykubelet.kubelet.config import Settings, gate_is_on
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.reports.work_meter import WorkMeter
from pykubelet.kubelet.types.resources.allocatable import MachineResources, node_allocatable, node_capacity, written
from pykubelet.kubelet.types.resources.cgroup_names import NameStyle
from pykubelet.kubelet.types.resources.pod_requests import MEMORY
from pykubelet.kubelet.types.sysctls import SysctlAllowlist
from pykubelet.linux import cgroups, system
from pykubelet.models.core_v1 import Pod
from pykubelet.models.quantity import Amount, to_value

if TYPE_CHECKING:
    from pykubelet.kubelet.actuate.volumes.csi import CsiParts


class ActuatorDeps(Struct, frozen=True, kw_only=True):
    """Dependencies of the stage."""

    cri: CriClient
    image_cri: CriClient
    objects: ConfigReader
    http: HttpGetter
    cluster: ClusterInputs | None
    """None without an API server."""
    pods: Callable[[], Iterable[Pod]]
    """Returns the desired pods."""
    telemetry: Telemetry[ActuatorMetrics]


class Images(Struct, frozen=True, kw_only=True):
    """Pulls images, records which credentials have pulled them, and removes those that are not used."""

    manager: ImageManager
    pulled: PulledImages
    gc: ImageGc


class Volumes(Struct, frozen=True, kw_only=True):
    """Mounts the volumes of pods, those of CSI drivers included."""

    manager: VolumeManager
    csi: "CsiParts | None"
    """None without an API server."""


class Actuators(Struct, frozen=True, kw_only=True):
    """Components of the stage that other stages use."""

    node: NodeFacts
    images: Images
    resources: PodCgroupManager
    users: IdRangeManager
    volumes: Volumes
    pod_resources: PodResources
    runtime: PodRuntime
    logs: LogRotation


def build_actuators(settings: Settings, deps: ActuatorDeps) -> Actuators:
    """Build the stage from the settings. Raises Invalid for an invalid quantity or sysctl pattern."""
    telemetry, cluster = deps.telemetry, deps.cluster
    machine = read_machine(settings)
    node = NodeFacts(node_options(settings, machine), cluster)
    images = _images(
        settings,
        cri=deps.cri,
        image_cri=deps.image_cri,
        objects=deps.objects,
        cluster=cluster,
        pods=deps.pods,
        telemetry=telemetry.measured_by(telemetry.metrics.images),
    )
    resources = _resources(settings, machine, telemetry.clock, telemetry.metrics.operations)
    dirs = PodDirs.at(settings.root_dir)
    volumes = _volumes(settings, dirs, node=node, images=images.manager, cluster=cluster, telemetry=telemetry)
    users = _id_ranges(settings, dirs, node, telemetry.clock)
    inputs = PodInputs(
        volumes=volumes.manager, files=dirs, resources=resources, node=node, objects=deps.objects, users=users
    )
    runtime = PodRuntime(
        PodRuntimeDeps(
            cri=deps.cri,
            images=images.manager,
            inputs=inputs,
            http=deps.http,
            telemetry=telemetry.measured_by(telemetry.metrics.operations),
        ),
        runtime_config(settings),
    )
    pod_resources = PodResources(
        PodResourcesDeps(
            resources=resources,
            volumes=volumes.manager,
            runtime=runtime,
            objects=deps.objects,
            node=node,
            users=users,
            cluster=cluster,
            telemetry=telemetry,
        )
    )
    return Actuators(
        node=node,
        images=images,
        resources=resources,
        users=users,
        volumes=volumes,
        pod_resources=pod_resources,
        runtime=runtime,
        logs=LogRotation(cri=deps.cri, config=rotation_config(settings), clock=telemetry.clock),
    )


def _images(
    settings: Settings,
    *,
    cri: CriClient,
    image_cri: CriClient,
    objects: ConfigReader,
    cluster: ClusterInputs | None,
    pods: Callable[[], Iterable[Pod]],
    telemetry: Telemetry[ImageRecorder],
) -> Images:
    pulled = PulledImages(settings.root_dir, verification=verification(settings), telemetry=telemetry)
    manager = ImageManager(
        ImageDeps(
            runtime=image_cri,
            secrets=objects,
            node=NodeCredentials.of_node(settings.root_dir, telemetry.clock),
            plugins=CredentialPlugins(
                PluginDeps(accounts=cluster.accounts if cluster is not None else None, telemetry=telemetry),
                settings.credential_providers,
            ),
            pulled=pulled,
            telemetry=telemetry,
        ),
        image_config(settings),
    )
    gc = GcDeps(images=image_cri, users=cri, telemetry=telemetry, disk=disk_use, pods=pods, pulled=pulled)
    return Images(manager=manager, pulled=pulled, gc=ImageGc(gc, gc_policy(settings)))


def verification(settings: Settings) -> Verification:
    """Convert the configuration's fields about the use of present images."""
    config = settings.config
    policy = Policy(config.image_pull_credentials_verification_policy)
    return Verification(policy, config.preloaded_images_verification_allowlist)


def image_config(settings: Settings) -> ImageConfig:
    """Convert the configuration's fields about image pulls."""
    return ImageConfig(
        parallel=settings.parallel_pulls,
        registry_qps=settings.config.registry_pull_qps,
        registry_burst=settings.config.registry_burst,
    )


def _volumes(
    settings: Settings,
    dirs: PodDirs,
    *,
    node: NodeFacts,
    images: ImageManager,
    cluster: ClusterInputs | None,
    telemetry: Telemetry[ActuatorMetrics],
) -> Volumes:
    csi = _csi(settings, cluster, dirs, telemetry)
    deps = VolumeDeps(
        images=images,
        tokens=cluster,
        recursive_read_only=node.recursive_read_only,
        claims=cluster.storage if cluster is not None else None,
        csi=csi.volumes if csi is not None else None,
        telemetry=telemetry.measured_by(telemetry.metrics.operations),
    )
    return Volumes(manager=VolumeManager(dirs=dirs, deps=deps, config=VolumeConfig()), csi=csi)


def _id_ranges(settings: Settings, dirs: PodDirs, node: NodeFacts, clock: Clock) -> IdRangeManager:
    config = settings.config
    return IdRangeManager(
        file=dirs.user_namespace,
        supported=node.runtime.user_namespaces,
        clock=clock,
        config=UserNamespaceConfig(config.user_namespaces.ids_per_pod, config.max_pods),
    )


def runtime_config(settings: Settings) -> PodRuntimeConfig:
    """Convert the settings of the pod runtime."""
    config = settings.config
    maximum = settings.seconds(config.crash_loop_back_off.max_container_restart_period)
    first, longest = crash_delays(
        reduced=gate_is_on(config.feature_gates, "ReduceDefaultCrashLoopBackOffDecay"),
        maximum=maximum if gate_is_on(config.feature_gates, "KubeletCrashLoopBackOffMax") else None,
    )
    return PodRuntimeConfig(
        pod_logs_dir=str(settings.pod_log_dir),
        container_logs_dir=str(settings.container_log_dir),
        crash_initial=first,
        crash_maximum=longest,
        start_slots=slot_count(system.cpu_count()),
    )


def _csi(
    settings: Settings, cluster: ClusterInputs | None, dirs: PodDirs, telemetry: Telemetry[ActuatorMetrics]
) -> "CsiParts | None":
    if cluster is None:
        return None
    # Imported only here, since an agent without an API server does not need it.
    from pykubelet.kubelet.actuate.volumes.csi import CsiConfig, CsiContext, build_csi

    config = CsiConfig(wait_attach=settings.config.enable_controller_attach_detach)
    measured = telemetry.measured_by(telemetry.metrics.operations)
    called = telemetry.metrics.calls.csi_operation
    context = CsiContext(dirs=dirs, node=settings.node_name, telemetry=measured, called=called)
    return build_csi(context, cluster.storage, config)


def gc_policy(settings: Settings) -> ImageGcPolicy:
    config = settings.config
    return ImageGcPolicy(
        high_threshold=config.image_gc_high_threshold_percent,
        low_threshold=config.image_gc_low_threshold_percent,
        minimum_age=settings.seconds(config.image_minimum_gc_age),
        maximum_age=settings.seconds(config.image_maximum_gc_age),
    )


def rotation_config(settings: Settings) -> RotationConfig:
    config = settings.config
    return RotationConfig(
        root=settings.pod_log_dir,
        max_size=Bytes(to_value(config.container_log_max_size)),
        max_files=config.container_log_max_files,
        workers=config.container_log_max_workers,
        interval=settings.seconds(config.container_log_monitor_interval),
    )


def node_options(settings: Settings, machine: MachineResources) -> NodeOptions:
    """Convert the configuration's fields about the node."""
    config = settings.config
    return NodeOptions(
        name=settings.node_name,
        ips=settings.node_ips,
        allocatable=written(_allocatable(settings, machine)),
        resolv_conf=config.resolv_conf,
        cluster_dns=config.cluster_dns,
        cluster_domain=config.cluster_domain,
        sysctls=SysctlAllowlist.make(system.kernel_release(), config.allowed_unsafe_sysctls),
        security=SecurityConfig(
            seccomp_default=config.seccomp_default, seccomp_root=str(settings.root_dir / "seccomp")
        ),
    )


def _allocatable(settings: Settings, machine: MachineResources) -> dict[str, Amount]:
    return node_allocatable(node_capacity(machine), reservations(settings))


def _policy(settings: Settings, machine: MachineResources) -> PolicyConfig:
    return policy_config(settings, Bytes(_allocatable(settings, machine)[MEMORY].value))


def check_machine(settings: Settings) -> None:
    """Check that the machine has what the configuration requires of it: cgroups, swap, resources to reserve.

    Raises Invalid. Blocks.
    """
    machine, layout = read_machine(settings), cgroups.detect()
    check_policy(layout, _policy(settings, machine))
    root_limits(settings, machine, system.pid_limit())
    for reserved in reserved_cgroups(settings.config) if not cgroups.problem(layout) else ():
        check_reserved(cgroups.open_driver(layout), reserved)


def _resources(settings: Settings, machine: MachineResources, clock: Clock, meter: WorkMeter) -> PodCgroupManager:
    config = settings.config
    layout = cgroups.detect()
    return open_manager(
        layout,
        PodCgroupConfig(
            policy=node_policy(layout, _policy(settings, machine)),
            root_limits=root_limits(settings, machine, system.pid_limit()),
            cgroup_root=config.cgroup_root or "/",
            style=NameStyle(config.cgroup_driver),
            per_qos=config.cgroups_per_qos,
            reserved=reserved_cgroups(config),
        ),
        clock,
        meter,
    )
