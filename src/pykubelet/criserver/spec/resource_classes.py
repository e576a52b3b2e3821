"""Classes of block I/O and of Intel RDT, which annotations give to containers, as with containerd. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from pykubelet.base.errors import Invalid
from pykubelet.criserver.spec.spec_types import Json
from pykubelet.models.quantity import to_value
from pykubelet.pb import runtime_v1_pb2 as pb

BLOCKIO: Final = "blockio"
RDT: Final = "rdt"
_RESERVED: Final = frozenset({"", ".", "..", "info", "mon_groups", "mon_data"})
"""Entries of resctrl that are not groups."""
_LONGEST_NAME: Final = 255


class DeviceParameters(Struct, frozen=True, forbid_unknown_fields=True, rename="pascal"):
    """Parameters for devices; without devices, the weight for all others. The names are those of goresctrl's file."""

    devices: tuple[str, ...] = ()
    throttle_read_bps: str | int = ""
    throttle_write_bps: str | int = ""
    throttle_read_iops: str | int = msgspec.field(default="", name="ThrottleReadIOPS")
    throttle_write_iops: str | int = msgspec.field(default="", name="ThrottleWriteIOPS")
    weight: str | int = ""


class BlockioFile(Struct, frozen=True, forbid_unknown_fields=True, rename="pascal"):
    """The file of block I/O classes."""

    classes: dict[str, tuple[DeviceParameters, ...]] = {}


class Device(Struct, frozen=True):
    """A block device of the node."""

    major: int
    minor: int


_RATES: Final = (
    ("throttle_read_bps", "ThrottleReadBps", "throttleReadBpsDevice"),
    ("throttle_write_bps", "ThrottleWriteBps", "throttleWriteBpsDevice"),
    ("throttle_read_iops", "ThrottleReadIOPS", "throttleReadIOPSDevice"),
    ("throttle_write_iops", "ThrottleWriteIOPS", "throttleWriteIOPSDevice"),
)


def class_of(kind: str, config: pb.ContainerConfig, pod: pb.PodSandboxConfig) -> str:
    """The class that annotations give a container: its own, that of the pod for it, that of the pod; empty: none."""
    prefix = f"{kind}.resources.beta.kubernetes.io"
    for annotations, key in (
        (config.annotations, f"io.kubernetes.cri.{kind}-class"),
        (pod.annotations, f"{prefix}/container.{config.metadata.name}"),
        (pod.annotations, f"{prefix}/pod"),
    ):
        if key in annotations:
            return annotations[key]
    return ""


def asks_for_classes(config: pb.ContainerConfig, pod: pb.PodSandboxConfig) -> bool:
    """Whether a container has a class of block I/O or RDT."""
    return any(class_of(kind, config, pod) for kind in (BLOCKIO, RDT))


def check_rdt_class(name: str) -> None:
    """Raise Invalid for a name that cannot be that of a group of resctrl."""
    if name in _RESERVED or "/" in name or "\n" in name or "\0" in name or len(name.encode()) > _LONGEST_NAME:
        raise Invalid(f"RDT class {name[:_LONGEST_NAME]!r}: not the name of a group below /sys/fs/resctrl")


def block_io(
    name: str, parameters: Sequence[DeviceParameters], devices: Callable[[str], Sequence[Device]], origin: str
) -> Json:
    """Build ``linux.resources.blockIO`` of a class; ``devices`` finds those of a pattern.

    For the same device, later entries replace earlier ones.

    Invalid names the file and the field.
    """
    found: Json = {}
    tables: dict[str, dict[Device, int]] = {}
    for number, each in enumerate(parameters):
        where = f"{origin}: Classes.{name}[{number}]"
        weight = _quantity(each.weight, f"{where}.Weight", 10, 1000)
        rates = {table: _quantity(getattr(each, field), f"{where}.{key}") for field, key, table in _RATES}
        if not each.devices:
            if any(rate is not None for rate in rates.values()):
                raise Invalid(f"{where}: throttling needs Devices")
            found |= {"weight": weight} if weight is not None else {}
            continue
        matching = [device for pattern in each.devices for device in devices(pattern)]
        for table, value in (("weightDevice", weight), *rates.items()):
            if value is not None:
                tables.setdefault(table, {}).update(dict.fromkeys(matching, value))
    for table, values in tables.items():
        value_name = "weight" if table == "weightDevice" else "rate"
        if values:
            found[table] = [
                {"major": device.major, "minor": device.minor, value_name: rate} for device, rate in values.items()
            ]
    return found


def with_classes(spec: Json, blockio: Mapping[str, object] | None, rdt: str) -> Json:
    """Return the spec with the parameters of the classes."""
    linux = spec["linux"]
    assert isinstance(linux, dict), "our own spec"
    changed = dict(linux)
    if blockio:
        changed["resources"] = {**linux["resources"], "blockIO": dict(blockio)}
    if rdt:
        changed["intelRdt"] = {"closID": rdt}
    return {**spec, "linux": changed}


def _quantity(text: str | int, what: str, least: int = 0, most: int | None = None) -> int | None:
    if text == "":
        return None
    try:
        value = to_value(str(text))
    except (ValueError, Invalid) as error:
        raise Invalid(f"{what}: {text!r} is not a quantity") from error
    if value < least or (most is not None and value > most):
        limits = f"at least {least}" if most is None else f"from {least} to {most}"
        raise Invalid(f"{what}: must be {limits}, not {value}")
    return value
