"""Converts records to CRI messages. Pure."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from google.protobuf.message import Message

from pykubelet.base.errors import Invalid
from pykubelet.criserver.container import Container
from pykubelet.criserver.images.reference import id_prefix, is_digest, parse
from pykubelet.criserver.sandbox import Sandbox
from pykubelet.criserver.spec.signals import signal_value
from pykubelet.criserver.types import ContainerPhase, SandboxPhase
from pykubelet.pb import runtime_v1_pb2 as pb

_CONTAINER_STATES = {
    ContainerPhase.MAKING: pb.CONTAINER_UNKNOWN,
    ContainerPhase.CREATED: pb.CONTAINER_CREATED,
    ContainerPhase.RUNNING: pb.CONTAINER_RUNNING,
    ContainerPhase.EXITED: pb.CONTAINER_EXITED,
    ContainerPhase.REMOVING: pb.CONTAINER_EXITED,
}


def sandbox_state(sandbox: Sandbox) -> "pb.PodSandboxState.ValueType":
    """The state of a sandbox in CRI."""
    return pb.SANDBOX_READY if sandbox.record.phase is SandboxPhase.READY else pb.SANDBOX_NOTREADY


def sandbox_summary(sandbox: Sandbox) -> pb.PodSandbox:
    """Convert a sandbox to its entry in lists."""
    config, record = sandbox.config, sandbox.record
    return pb.PodSandbox(
        id=record.id,
        metadata=config.metadata,
        state=sandbox_state(sandbox),
        created_at=record.created_at,
        labels=config.labels,
        annotations=config.annotations,
        runtime_handler=record.handler,
    )


def sandbox_status(sandbox: Sandbox) -> pb.PodSandboxStatus:
    """Convert a sandbox to its CRI status."""
    config, record = sandbox.config, sandbox.record
    network = pb.PodSandboxNetworkStatus()
    if record.ips:
        network.ip = record.ips[0]
        network.additional_ips.extend(pb.PodIP(ip=ip) for ip in record.ips[1:])
    options = config.linux.security_context.namespace_options
    return pb.PodSandboxStatus(
        id=record.id,
        metadata=config.metadata,
        state=sandbox_state(sandbox),
        created_at=record.created_at,
        network=network,
        linux=pb.LinuxPodSandboxStatus(namespaces=pb.Namespace(options=options)),
        labels=config.labels,
        annotations=config.annotations,
        runtime_handler=record.handler,
    )


def container_state(container: Container) -> "pb.ContainerState.ValueType":
    """The state of a container in CRI."""
    return _CONTAINER_STATES[container.record.phase]


def container_summary(container: Container) -> pb.Container:
    """Convert a container to its entry in lists."""
    config, record = container.config, container.record
    return pb.Container(
        id=record.id,
        pod_sandbox_id=record.sandbox_id,
        metadata=config.metadata,
        image=_image(container),
        image_ref=record.image_ref,
        state=container_state(container),
        created_at=record.created_at,
        labels=config.labels,
        annotations=config.annotations,
        image_id=record.image_id,
    )


def container_status(container: Container) -> pb.ContainerStatus:
    """Convert a container to its CRI status."""
    config, record = container.config, container.record
    user = record.user
    return pb.ContainerStatus(
        id=record.id,
        metadata=config.metadata,
        state=container_state(container),
        created_at=record.created_at,
        started_at=record.started_at,
        finished_at=record.finished_at,
        exit_code=record.exit_code,
        image=_image(container),
        image_ref=record.image_ref,
        image_id=record.image_id,
        reason=record.reason,
        message=record.message,
        labels=config.labels,
        annotations=config.annotations,
        mounts=config.mounts,
        log_path=record.log_path,
        resources=pb.ContainerResources(linux=config.linux.resources),
        user=pb.ContainerUser(linux=pb.LinuxContainerUser(uid=user.uid, gid=user.gid, supplemental_groups=user.groups)),
        stop_signal=signal_value(record.stop_signal),
    )


def as_asked(message: Message) -> dict[str, object]:
    """Convert the set fields of a request for JSON, by their CRI names; enums are numbers, as with containerd."""
    return {field.name: _plain(value) for field, value in message.ListFields()}


def _plain(value: object) -> object:
    match value:
        case Message():
            return as_asked(value)
        case bytes():
            return value.decode(errors="replace")
        case str():
            return value
        case Mapping():
            return {str(key): _plain(each) for key, each in value.items()}
        case Sequence():
            return [_plain(each) for each in value]
        case _:
            return value


def image_name(container: Container) -> str:
    """The name by which a container's image was requested, in its full form; an id stays as it is.

    With containerd it is one of the image's tags, in full; tools compare it with the names of images.
    """
    image = container.config.image
    return _full_name(image.user_specified_image or image.image, container.record.image_id)


@lru_cache(maxsize=1024)  # lists name the same few images again and again
def _full_name(text: str, image_id: str) -> str:
    digits = id_prefix(text)
    if is_digest(text) or (digits and image_id.removeprefix("sha256:").startswith(digits)):
        return text
    try:
        full = parse(text)
    except Invalid:
        return text
    return full.name + (f":{full.tag}" if full.tag else "") + (f"@{full.digest}" if full.digest else "")


def _image(container: Container) -> pb.ImageSpec:
    image = pb.ImageSpec()
    image.CopyFrom(container.config.image)
    image.image = image_name(container)
    return image
