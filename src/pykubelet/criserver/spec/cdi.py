"""The Container Device Interface: applies the edits of vendors' CDI files to a container's spec. Pure.

A file names a kind (``vendor.com/class``) with devices; each device, and the file for all of its devices, lists edits.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, ValidationError

from pykubelet.base.errors import Invalid, NotFound, Unsupported
from pykubelet.base.files.decoding import convert
from pykubelet.criserver.spec.spec_types import HostDevice, Json, device_node

_HOOKS = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")


class DeviceNode(Struct, frozen=True, rename="camel"):
    """A device node; missing values are taken from the node's device file."""

    path: str
    host_path: str = ""
    type: str = ""
    major: int = 0
    minor: int = 0
    file_mode: int | None = None
    permissions: str = "rwm"
    uid: int | None = None
    gid: int | None = None


class CdiMount(Struct, frozen=True, rename="camel"):
    """A bind mount."""

    host_path: str
    container_path: str
    options: tuple[str, ...] = ()
    type: str = "bind"


class Hook(Struct, frozen=True, rename="camel"):
    """A hook: a program that the OCI runtime runs at a stage of the container's life cycle."""

    hook_name: str
    path: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    timeout: int | None = None


class Edits(Struct, frozen=True, rename="camel"):
    """The edits of a spec."""

    env: tuple[str, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    mounts: tuple[CdiMount, ...] = ()
    hooks: tuple[Hook, ...] = ()
    additional_gids: tuple[int, ...] = ()
    net_devices: tuple[dict[str, object], ...] = ()
    intel_rdt: dict[str, object] | None = None


class CdiDevice(Struct, frozen=True, rename="camel"):
    """A device of a CDI file."""

    name: str
    container_edits: Edits = Edits()


class CdiFile(Struct, frozen=True, rename="camel"):
    """The content of one CDI file."""

    cdi_version: str
    kind: str
    devices: tuple[CdiDevice, ...] = ()
    container_edits: Edits = Edits()


class RankedCdiFile(Struct, frozen=True):
    """A CDI file and the rank of its directory: for a device in several files, the higher rank takes precedence."""

    origin: str
    rank: int
    file: CdiFile


def parse_file(document: object, origin: str) -> CdiFile:
    """Validate a file's content. Invalid names the problem."""
    try:
        file = convert(document, CdiFile)
    except ValidationError as error:
        raise Invalid(f"{origin}: {error}") from error
    for edits in (file.container_edits, *(device.container_edits for device in file.devices)):
        unknown = {hook.hook_name for hook in edits.hooks} - set(_HOOKS)
        if unknown:
            raise Invalid(f"{origin}: unknown hooks: {', '.join(sorted(unknown))}")
        for path in (*(node.path for node in edits.device_nodes), *(mount.container_path for mount in edits.mounts)):
            if not path.startswith("/"):
                raise Invalid(f"{origin}: path {path!r} must be absolute")
    return file


def edits_of(names: Sequence[str], files: Iterable[RankedCdiFile]) -> list[Edits]:
    """Collect the edits of these devices (``vendor.com/class=name``) in order; a file's own edits come once, first.

    NotFound: no file defines the device; Invalid: the name is malformed, or two files of one rank define it.
    Unsupported: its edits have network devices or Intel RDT, which the containers would lack.
    """
    ranked = sorted(files, key=lambda found: found.rank, reverse=True)
    edits: list[Edits] = []
    seen: set[str] = set()
    for name in names:
        kind, equals, device_name = name.partition("=")
        if not equals or "/" not in kind or not device_name:
            raise Invalid(f"CDI device {name!r} must be written as vendor/class=name")
        found, device = _device(name, kind, device_name, ranked)
        if found.origin not in seen:
            seen.add(found.origin)
            edits.append(found.file.container_edits)
        edits.append(device.container_edits)
        if any(each.net_devices or each.intel_rdt for each in edits[-2:]):
            raise Unsupported(f"CDI device {name} has netDevices or intelRdt, which this server does not support")
    return edits


def _device(name: str, kind: str, device_name: str, ranked: Sequence[RankedCdiFile]) -> tuple[RankedCdiFile, CdiDevice]:
    matches = [
        (found, device)
        for found in ranked
        if found.file.kind == kind
        for device in found.file.devices
        if device.name == device_name
    ]
    if not matches:
        raise NotFound(f"CDI device {name} is not defined in the CDI directories")
    first = matches[0]
    rivals = [found.origin for found, _ in matches[1:] if found.rank == first[0].rank]
    if rivals:
        raise Invalid(f"CDI device {name} is defined twice: in {first[0].origin} and in {rivals[0]}")
    return first


def apply_edits(spec: Json, edits: Iterable[Edits], devices: Mapping[str, HostDevice]) -> Json:
    """Return the spec with these edits; ``devices``: their device nodes by path in the container."""
    process, linux = dict(_object(spec["process"])), dict(_object(spec["linux"]))
    resources = dict(_object(linux["resources"]))
    env, mounts = list(_list(process["env"])), list(_list(spec["mounts"]))
    nodes, rules = list(_list(linux["devices"])), list(_list(resources["devices"]))
    hooks: dict[str, list[object]] = {}
    user = dict(_object(process["user"]))
    groups = list(_list(user.get("additionalGids", [])))
    for edit in edits:
        names = {variable.partition("=")[0] for variable in edit.env}
        env = [each for each in env if str(each).partition("=")[0] not in names] + list(edit.env)
        for mount in edit.mounts:
            mounts = [each for each in mounts if _object(each)["destination"] != mount.container_path]
            mounts.append(_mount(mount))
        for node in edit.device_nodes:
            device = devices[node.path]
            nodes = [each for each in nodes if _object(each)["path"] != node.path] + [device_node(device)]
            rules.append(_rule(device))
        for hook in edit.hooks:
            hooks.setdefault(hook.hook_name, []).append(_hook(hook))
        groups += [gid for gid in edit.additional_gids if gid not in groups]
    mounts.sort(key=lambda each: str(_object(each)["destination"]).count("/"))
    user["additionalGids"] = groups
    process |= {"env": env, "user": user}
    resources["devices"] = rules
    linux |= {"devices": nodes, "resources": resources}
    changed = {**spec, "process": process, "linux": linux, "mounts": mounts}
    if hooks:
        earlier = _object(spec.get("hooks", {}))  # of the handler's base
        changed["hooks"] = {**earlier, **{name: [*_list(earlier.get(name, [])), *each] for name, each in hooks.items()}}
    return changed


def _mount(mount: CdiMount) -> Json:
    options = list(mount.options) or ["rbind", "rprivate", "ro"]
    return {
        "destination": mount.container_path,
        "type": mount.type or "bind",
        "source": mount.host_path,
        "options": options,
    }


def _rule(device: HostDevice) -> Json:
    return {
        "allow": True,
        "type": device.kind,
        "major": device.major,
        "minor": device.minor,
        "access": device.access,
    }


def _hook(hook: Hook) -> Json:
    said: Json = {"path": hook.path}
    if hook.args:
        said["args"] = list(hook.args)
    if hook.env:
        said["env"] = list(hook.env)
    if hook.timeout is not None:
        said["timeout"] = hook.timeout
    return said


def _object(value: object) -> Json:
    assert isinstance(value, dict), "our own spec"
    return value


def _list(value: object) -> list[object]:
    assert isinstance(value, list), "our own spec"
    return value
