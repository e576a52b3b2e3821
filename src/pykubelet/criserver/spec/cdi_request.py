"""CDI devices that a container requests: by the field of CRI, or by annotations (CDI's specification, "annotations").

Device plugins that are configured so (NVIDIA's ``cdi-annotations``) answer with annotations. Pure.
"""

from pykubelet.base.errors import Invalid
from pykubelet.base.text import printable
from pykubelet.pb import runtime_v1_pb2 as pb

_PREFIX = "cdi.k8s.io/"


def asks_for_devices(config: pb.ContainerConfig) -> bool:
    """Whether a container asks for CDI devices."""
    return bool(config.CDI_devices) or any(key.startswith(_PREFIX) for key in config.annotations)


def devices_of(config: pb.ContainerConfig) -> list[str]:
    """The names of a container's CDI devices, each once: those of the field first, then by the annotations' keys.

    Raises Invalid, which names the annotation, for a name that is not ``vendor.com/class=device``.
    """
    names = [device.name for device in config.CDI_devices]
    for key in sorted(config.annotations):
        if not key.startswith(_PREFIX):
            continue
        for name in config.annotations[key].split(","):
            kind, equals, device = name.strip().partition("=")
            if "/" not in kind or not equals or not device:
                raise Invalid(
                    f"annotation {printable(key)}: {printable(name)!r} must be written as vendor.com/class=device"
                )
            names.append(name.strip())
    return list(dict.fromkeys(names))
