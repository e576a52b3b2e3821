"""Builds the CRI message that creates a container."""

from collections.abc import Mapping, Sequence

from pykubelet.base.errors import Invalid
from pykubelet.base.expand import expand_all
from pykubelet.kubelet.actuate.actuate_types import HostMount, Propagation
from pykubelet.kubelet.actuate.cri_messages.config_types import ContainerContext, UserNamespace, container_error
from pykubelet.kubelet.actuate.cri_messages.environment.env import encode_value
from pykubelet.kubelet.actuate.cri_messages.labels import container_annotations, container_labels
from pykubelet.kubelet.actuate.cri_messages.names import container_log_path
from pykubelet.kubelet.actuate.cri_messages.resources import resources_message
from pykubelet.kubelet.actuate.cri_messages.security import container_security, id_mappings, verify_non_root
from pykubelet.kubelet.actuate.cri_messages.signals import stop_signal
from pykubelet.kubelet.types.podspec import AnyContainer
from pykubelet.kubelet.types.runtime import ContainerKind
from pykubelet.models.core_v1 import Pod
from pykubelet.pb import runtime_v1_pb2 as pb

_PROPAGATION = {
    Propagation.PRIVATE: pb.PROPAGATION_PRIVATE,
    Propagation.HOST_TO_CONTAINER: pb.PROPAGATION_HOST_TO_CONTAINER,
    Propagation.BIDIRECTIONAL: pb.PROPAGATION_BIDIRECTIONAL,
}


def container_config(
    pod: Pod, container: AnyContainer, kind: ContainerKind, context: ContainerContext
) -> pb.ContainerConfig:
    """Build the message for one start of a container.

    Only ephemeral containers have a target whose processes they see. Raises ConfigError if the spec is invalid or not
    possible, for example `runAsNonRoot` with an image that runs as root.
    """
    verify_non_root(pod, container, context.image)
    try:
        return _message(pod, container, kind, context)
    except ValueError as error:  # a number or text of the spec that does not fit the wire
        raise container_error(f"container {container.name}: {error}") from error


def mount_message(mount: HostMount, namespace: UserNamespace | None = None) -> pb.Mount:
    """Convert a mount; in a user namespace it is id-mapped, so that file owners are mapped to the pod's ids."""
    uids, gids = id_mappings(namespace) if namespace else ([], [])
    image = None
    if mount.image:
        image = pb.ImageSpec(image=mount.image, user_specified_image=mount.user_specified_image)
    return pb.Mount(
        container_path=mount.container_path,
        host_path=mount.host_path,
        readonly=mount.read_only,
        recursive_read_only=mount.recursive_read_only,
        selinux_relabel=mount.selinux_relabel,
        propagation=_PROPAGATION[mount.propagation],
        uidMappings=uids,
        gidMappings=gids,
        image=image,
        image_sub_path=mount.image_sub_path,
    )


def _expanded(name: str, texts: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
    try:
        return expand_all(texts, env)
    except Invalid as error:
        raise container_error(f"{name}: {error}") from error


def _message(pod: Pod, container: AnyContainer, kind: ContainerKind, context: ContainerContext) -> pb.ContainerConfig:
    target_id = context.target_id if kind is ContainerKind.EPHEMERAL else ""
    namespace = context.user_namespace if pod.spec.host_users is False else None
    return pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name=container.name, attempt=context.restart_count),
        image=pb.ImageSpec(image=context.image_ref, user_specified_image=container.image),
        command=_expanded("command", container.command, context.env),
        args=_expanded("args", container.args, context.env),
        working_dir=container.working_dir,
        envs=[pb.KeyValue(key=name, value=encode_value(value)) for name, value in context.env.items()],
        mounts=[mount_message(mount, namespace) for mount in context.mounts],
        devices=[
            pb.Device(host_path=d.host_path, container_path=d.container_path, permissions=d.permissions)
            for d in context.devices
        ],
        CDI_devices=[pb.CDIDevice(name=name) for name in context.cdi_devices],
        labels=container_labels(pod, container),
        annotations=container_annotations(pod, container, context.restart_count, context.annotations),
        log_path=container_log_path(container.name, context.restart_count),
        stdin=bool(container.stdin),
        stdin_once=bool(container.stdin_once),
        tty=bool(container.tty),
        linux=pb.LinuxContainerConfig(
            resources=resources_message(context.resources) if context.resources else None,
            security_context=container_security(pod, container, context, target_id),
        ),
        stop_signal=stop_signal(container),
    )
