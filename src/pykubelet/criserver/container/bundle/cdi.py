"""Reads the files of the Container Device Interface when a container asks for a device. Blocking."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec.structs import replace

from pykubelet.base.errors import Invalid, NotFound
from pykubelet.base.files.documents import read_json, read_yaml
from pykubelet.criserver.container.bundle.prepare import device_at
from pykubelet.criserver.spec.cdi import DeviceNode, Edits, RankedCdiFile, apply_edits, edits_of, parse_file
from pykubelet.criserver.spec.spec_types import HostDevice, Json

_MAX = 4 << 20


def inject(spec: Json, names: Sequence[str], directories: Iterable[Path]) -> Json:
    """Return the spec with these devices. Files in later directories take precedence.

    NotFound: no file defines a device, or the node has no such device file. Invalid: a name or a file.
    """
    found, problems = _files(directories)
    try:
        edits = edits_of(names, found)
    except NotFound as error:
        raise NotFound("; ".join([str(error), *problems])) from error
    return apply_edits(spec, edits, _devices(edits))


def _files(directories: Iterable[Path]) -> tuple[list[RankedCdiFile], list[str]]:
    """Read all CDI files; return the valid ones and the problems of the others, which affect only their own devices."""
    found: list[RankedCdiFile] = []
    problems: list[str] = []
    for rank, directory in enumerate(directories):
        for path in sorted(directory.iterdir()) if directory.is_dir() else ():
            if path.suffix in (".json", ".yaml") and path.is_file():
                try:
                    found.append(RankedCdiFile(str(path), rank, parse_file(_read(path), str(path))))
                except Invalid as error:
                    problems.append(str(error))
    return found, problems


def _read(path: Path) -> object:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX + 1)
        if len(data) > _MAX:
            raise Invalid(f"{path}: larger than {_MAX >> 20} MiB")
        return read_json(data) if path.suffix == ".json" else read_yaml(data)
    except (OSError, Invalid) as error:
        raise Invalid(f"{path}: cannot be read: {error}") from error


def _devices(edits: Iterable[Edits]) -> dict[str, HostDevice]:
    return {node.path: _device(node) for edit in edits for node in edit.device_nodes}


def _device(node: DeviceNode) -> HostDevice:
    source = Path(node.host_path or node.path)
    device = device_at(source, node.path, node.permissions)
    if device is None:
        if node.type not in ("c", "b") or not node.major:
            raise NotFound(f"CDI device node {source} does not exist on this node")
        device = HostDevice(node.path, node.type, node.major, node.minor, 0o660, 0, 0, node.permissions)
    return replace(
        device,
        mode=device.mode if node.file_mode is None else node.file_mode,
        uid=device.uid if node.uid is None else node.uid,
        gid=device.gid if node.gid is None else node.gid,
    )
