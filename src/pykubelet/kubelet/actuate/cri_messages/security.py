"""Security settings of sandboxes and containers: users, groups, namespaces, capabilities, profiles.

A container's own `securityContext` overrides the pod's, field by field. A setting that is not possible is an error,
never silently left out.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from pykubelet.kubelet.actuate.actuate_types import ImageFacts
from pykubelet.kubelet.actuate.cri_messages.config_types import (
    ConfigError,
    ConfigReason,
    ContainerContext,
    SecurityConfig,
    UserNamespace,
    container_error,
    describe,
)
from pykubelet.kubelet.types.podspec import AnyContainer, each_container
from pykubelet.models.core_v1 import (
    AppArmorProfile,
    Capabilities,
    Pod,
    PodSecurityContext,
    SeccompProfile,
    SecurityContext,
    SELinuxOptions,
)
from pykubelet.pb import runtime_v1_pb2 as pb

_MAX_ID = 2**31 - 1
_APPARMOR_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"
_LOCALHOST = "localhost/"
_MASKED = (
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
)
_READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
_RUNTIME_DEFAULT = pb.SecurityProfile.RuntimeDefault
_UNCONFINED = pb.SecurityProfile.Unconfined


def effective_security(pod: Pod, container: AnyContainer) -> SecurityContext:
    """Merge the container's settings with those of the pod that apply to all its containers.

    Profiles (seccomp, AppArmor) are not merged here: they have rules of their own.
    """
    own = container.security_context or SecurityContext()
    shared = pod.spec.security_context or PodSecurityContext()
    return replace(
        own,
        run_as_user=shared.run_as_user if own.run_as_user is None else own.run_as_user,
        run_as_group=shared.run_as_group if own.run_as_group is None else own.run_as_group,
        run_as_non_root=shared.run_as_non_root if own.run_as_non_root is None else own.run_as_non_root,
        se_linux_options=own.se_linux_options or shared.se_linux_options,
    )


def verify_non_root(pod: Pod, container: AnyContainer, image: ImageFacts) -> None:
    """Raise ConfigError if `runAsNonRoot` holds and the container would run as root, or might.

    A user name in the image cannot be verified, since the image's own files define its uid.
    """
    security = effective_security(pod, container)
    if not security.run_as_non_root:
        return
    where = f'(pod: "{describe(pod)}", container: {container.name})'
    if security.run_as_user is not None:
        if security.run_as_user == 0:
            raise container_error(f"container's runAsUser breaks non-root policy {where}")
        return
    if image.uid is None and image.username:
        raise container_error(
            f"container has runAsNonRoot and image has non-numeric user ({image.username}), "
            f"cannot verify user is non-root {where}"
        )
    if not image.uid:
        raise container_error(f"container has runAsNonRoot and image will run as root {where}")
    if not 0 <= image.uid <= _MAX_ID:
        raise container_error(
            f"container has runAsNonRoot and image has an invalid user id ({image.uid}). "
            f"(Must be 1-({_MAX_ID})): must be between 0 and {_MAX_ID}, inclusive {where}"
        )


def container_security(
    pod: Pod, container: AnyContainer, context: ContainerContext, target_id: str = ""
) -> pb.LinuxContainerSecurityContext:
    """Security settings of a container; `target_id` is the container whose processes it sees."""
    security = effective_security(pod, container)
    shared = pod.spec.security_context or PodSecurityContext()
    user, username = security.run_as_user, ""
    if user is None:
        username = "" if context.image.uid is not None else context.image.username
        user = None if username else context.image.uid or 0
    own_group = () if shared.fs_group is None else (shared.fs_group,)
    apparmor, apparmor_name = _apparmor(pod, container)
    unmasked = security.proc_mount == "Unmasked"
    return pb.LinuxContainerSecurityContext(
        capabilities=_capabilities(security.capabilities),
        privileged=bool(security.privileged),
        namespace_options=namespace_options(pod, context.user_namespace, target_id),
        selinux_options=_selinux(security.se_linux_options),
        run_as_user=_int64(user),
        run_as_username=username,
        run_as_group=_int64(security.run_as_group),
        readonly_rootfs=bool(security.read_only_root_filesystem),
        supplemental_groups=(*own_group, *shared.supplemental_groups, *context.extra_groups),
        supplemental_groups_policy=_groups_policy(shared, ConfigReason.CREATE_CONTAINER_CONFIG),
        no_new_privs=security.allow_privilege_escalation is False,
        masked_paths=() if unmasked else (*_MASKED, *context.security.masked_paths),
        readonly_paths=() if unmasked else _READ_ONLY,
        seccomp=_seccomp(shared, container.security_context, context.security),
        apparmor=apparmor,
        apparmor_profile=apparmor_name,
    )


def sandbox_security(
    pod: Pod, user_namespace: UserNamespace | None, extra_groups: Sequence[int]
) -> pb.LinuxSandboxSecurityContext:
    """Security settings of a sandbox.

    Its own process always has the RuntimeDefault seccomp profile; containers have their own profiles.
    """
    shared = pod.spec.security_context or PodSecurityContext()
    own_group = () if shared.fs_group is None else (shared.fs_group,)
    return pb.LinuxSandboxSecurityContext(
        namespace_options=namespace_options(pod, user_namespace),
        selinux_options=_selinux(shared.se_linux_options),
        run_as_user=_int64(shared.run_as_user),
        # Runtimes reject a group without a user; neither matters for the sandbox's own process.
        run_as_group=_int64(None if shared.run_as_user is None else shared.run_as_group),
        supplemental_groups=(*own_group, *extra_groups, *shared.supplemental_groups),
        supplemental_groups_policy=_groups_policy(shared, ConfigReason.CREATE_POD_SANDBOX),
        privileged=any(
            container.security_context is not None and bool(container.security_context.privileged)
            for _, container in each_container(pod)
        ),
        seccomp=pb.SecurityProfile(profile_type=_RUNTIME_DEFAULT),
    )


def namespace_options(pod: Pod, user_namespace: UserNamespace | None, target_id: str = "") -> pb.NamespaceOption:
    """Namespace options of a sandbox or container; with a target, the container sees the target's processes.

    Raises ConfigError if the pod needs a user namespace and has none.
    """
    spec = pod.spec
    pid = pb.NODE if spec.host_pid else pb.POD if spec.share_process_namespace else pb.CONTAINER
    # In a shared or the host's PID namespace the target is visible anyway.
    targeted = bool(target_id) and pid == pb.CONTAINER
    return pb.NamespaceOption(
        network=pb.NODE if spec.host_network else pb.POD,
        ipc=pb.NODE if spec.host_ipc else pb.POD,
        pid=pb.TARGET if targeted else pid,
        target_id=target_id if targeted else "",
        userns_options=_user_namespace(pod, user_namespace),
    )


def _user_namespace(pod: Pod, given: UserNamespace | None) -> pb.UserNamespace:
    if pod.spec.host_users is not False:
        return pb.UserNamespace(mode=pb.NODE)
    if given is None:
        raise ConfigError(
            ConfigReason.CREATE_POD_SANDBOX,
            "can't set `spec.hostUsers: false`, runtime does not support user namespaces",
        )
    return pb.UserNamespace(mode=pb.POD, uids=id_mappings(given)[0], gids=id_mappings(given)[1])


def id_mappings(namespace: UserNamespace) -> tuple[list[pb.IDMapping], list[pb.IDMapping]]:
    """Convert uid and gid mappings to messages."""
    uids, gids = (
        [pb.IDMapping(host_id=m.host_id, container_id=m.container_id, length=m.length) for m in mappings]
        for mappings in (namespace.uids, namespace.gids)
    )
    return uids, gids


def _seccomp(shared: PodSecurityContext, own: SecurityContext | None, config: SecurityConfig) -> pb.SecurityProfile:
    profile = (own.seccomp_profile if own else None) or shared.seccomp_profile
    if profile is None:
        profile = SeccompProfile(type="RuntimeDefault" if config.seccomp_default else "Unconfined")
    match profile.type:
        case "RuntimeDefault":
            return pb.SecurityProfile(profile_type=_RUNTIME_DEFAULT)
        case "Localhost":
            return pb.SecurityProfile(
                profile_type=pb.SecurityProfile.Localhost,
                localhost_ref=f"{config.seccomp_root}/{_profile_path(profile.localhost_profile)}",
            )
        case "Unconfined":
            return pb.SecurityProfile(profile_type=_UNCONFINED)
        case other:
            raise container_error(
                f'unknown seccomp profile type: "{other}"; use RuntimeDefault, Localhost or Unconfined'
            )


def _profile_path(path: str | None) -> str:
    # An empty name would be the directory itself, which some runtimes took for "unconfined" (CVE-2023-2431).
    if not path:
        raise container_error("localhostProfile must be set if seccompProfile type is Localhost.")
    parts = path.split("/")
    if path.startswith("/") or ".." in parts or not any(part not in ("", ".") for part in parts):
        raise container_error(
            f'seccompProfile localhostProfile "{path}" must be a path below the directory of profiles, without ".."'
        )
    return path


def _apparmor(pod: Pod, container: AnyContainer) -> tuple[pb.SecurityProfile | None, str]:
    """AppArmor profile, and its name in the form of older runtimes."""
    profile = _apparmor_profile(pod, container)
    if profile is None:
        return None, ""
    match profile.type:
        case "RuntimeDefault":
            return pb.SecurityProfile(profile_type=_RUNTIME_DEFAULT), "runtime/default"
        case "Unconfined":
            return pb.SecurityProfile(profile_type=_UNCONFINED), "unconfined"
        case "Localhost" if profile.localhost_profile:
            return (
                pb.SecurityProfile(profile_type=pb.SecurityProfile.Localhost, localhost_ref=profile.localhost_profile),
                f"{_LOCALHOST}{profile.localhost_profile}",
            )
        case "Localhost":
            raise container_error("missing localhost apparmor profile name")
        case other:
            raise container_error(
                f'unknown apparmor profile type: "{other}"; use RuntimeDefault, Localhost or Unconfined'
            )


def _apparmor_profile(pod: Pod, container: AnyContainer) -> AppArmorProfile | None:
    """AppArmor profile from the container's field, else the old annotation (static pods), else the pod's field."""
    if container.security_context and container.security_context.app_armor_profile:
        return container.security_context.app_armor_profile
    match pod.metadata.annotations.get(_APPARMOR_ANNOTATION + container.name, ""):
        case "runtime/default":
            return AppArmorProfile(type="RuntimeDefault")
        case "unconfined":
            return AppArmorProfile(type="Unconfined")
        case name if name.startswith(_LOCALHOST):
            return AppArmorProfile(type="Localhost", localhost_profile=name.removeprefix(_LOCALHOST))
        case _:
            return pod.spec.security_context.app_armor_profile if pod.spec.security_context else None


def _groups_policy(shared: PodSecurityContext, reason: ConfigReason) -> pb.SupplementalGroupsPolicy.ValueType:
    match shared.supplemental_groups_policy:
        case "" | "Merge":
            return pb.Merge
        case "Strict":
            return pb.Strict
        case other:
            raise ConfigError(reason, f"unsupported supplementalGroupsPolicy: {other}")


def _selinux(options: SELinuxOptions | None) -> pb.SELinuxOption | None:
    if options is None:
        return None
    return pb.SELinuxOption(user=options.user, role=options.role, type=options.type, level=options.level)


def _capabilities(capabilities: Capabilities | None) -> pb.Capability | None:
    if capabilities is None:
        return None
    return pb.Capability(add_capabilities=capabilities.add, drop_capabilities=capabilities.drop)


def _int64(value: int | None) -> pb.Int64Value | None:
    return None if value is None else pb.Int64Value(value=value)
