"""What is asked for and cannot be given is refused: a container less confined than asked would be worse. Pure."""

from pykubelet.base.errors import Permanent
from pykubelet.pb import runtime_v1_pb2 as pb


def check_container(config: pb.ContainerConfig) -> None:
    """Permanent names the feature that is not supported."""
    context = config.linux.security_context
    wanted = {
        "CDI devices": bool(config.CDI_devices),
        "AppArmor profiles of the node": context.apparmor.profile_type == pb.SecurityProfile.Localhost,
    }
    _refuse(f"container {config.metadata.name}", wanted)


def _refuse(what: str, wanted: dict[str, bool]) -> None:
    refused = [feature for feature, asked in wanted.items() if asked]
    if refused:
        raise Permanent(f"{what}: not supported by this runtime: {', '.join(refused)}")
