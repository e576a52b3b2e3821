"""What is asked for and cannot be given is refused: a container less confined than asked would be worse. Pure."""

from pykubelet.base.errors import Permanent
from pykubelet.pb import runtime_v1_pb2 as pb


def check_container(config: pb.ContainerConfig) -> None:
    """Permanent names the feature that is not supported."""
    context = config.linux.security_context
    wanted = {
        "CDI devices": bool(config.CDI_devices),
        "user namespaces": context.namespace_options.userns_options.mode == pb.POD
        and context.namespace_options.HasField("userns_options"),
        "AppArmor profiles of the node": context.apparmor.profile_type == pb.SecurityProfile.Localhost,
        "mounts with mapped ids": any(mount.uidMappings or mount.gidMappings for mount in config.mounts),
    }
    _refuse(f"container {config.metadata.name}", wanted)


def check_sandbox(config: pb.PodSandboxConfig) -> None:
    """Permanent names the feature that is not supported."""
    options = config.linux.security_context.namespace_options
    user = options.HasField("userns_options") and options.userns_options.mode == pb.POD
    _refuse(f"sandbox {config.metadata.name}", {"user namespaces": user})


def _refuse(what: str, wanted: dict[str, bool]) -> None:
    refused = [feature for feature, asked in wanted.items() if asked]
    if refused:
        raise Permanent(f"{what}: not supported by this runtime: {', '.join(refused)}")
