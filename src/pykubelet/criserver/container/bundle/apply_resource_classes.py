"""Applies the classes of block I/O and RDT of a container. Imported only when one has a class. Blocking."""

import logging
import os
import stat
from collections.abc import Sequence
from pathlib import Path

import msgspec

from pykubelet.base.errors import Invalid, NotFound
from pykubelet.base.files.decoding import convert
from pykubelet.base.files.documents import read_yaml
from pykubelet.base.files.safe_path import read_regular
from pykubelet.base.units import MIB
from pykubelet.criserver.container.container_interfaces import ResourceClassFiles
from pykubelet.criserver.spec.resource_classes import (
    BLOCKIO,
    RDT,
    BlockioFile,
    Device,
    block_io,
    check_rdt_class,
    class_of,
    with_classes,
)
from pykubelet.criserver.spec.spec_types import Json
from pykubelet.pb import runtime_v1_pb2 as pb

_log = logging.getLogger(__name__)
_LONGEST = 1 * MIB


def apply_classes(spec: Json, config: pb.ContainerConfig, pod: pb.PodSandboxConfig, files: ResourceClassFiles) -> Json:
    """Return the spec with the parameters of the container's classes. Invalid, NotFound: a class cannot be applied."""
    blockio, rdt = class_of(BLOCKIO, config, pod), class_of(RDT, config, pod)
    parameters = _block_io(blockio, config.metadata.name, files) if blockio else None
    return with_classes(spec, parameters, _rdt(rdt, config.metadata.name, files) if rdt else "")


def _block_io(name: str, container: str, files: ResourceClassFiles) -> Json | None:
    file = files.blockio
    if file is None:
        if files.ignore_blockio:
            return None
        raise Invalid(
            f"container {container} has the block I/O class {name!r}, but no classes are configured; set "
            "blockio_config_file in the configuration of the runtime server"
        )
    try:
        document = convert(read_yaml(read_regular(file, _LONGEST)) or {}, BlockioFile)
    except OSError as error:
        raise Invalid(f"blockio_config_file {file} cannot be read: {error.strerror}") from error
    except (msgspec.ValidationError, Invalid) as error:
        raise Invalid(f"blockio_config_file {file}: {error}") from error
    if name not in document.classes:
        known = ", ".join(sorted(document.classes)) or "none"
        raise NotFound(f"container {container}: block I/O class {name!r} is not in {file}; its classes: {known}")
    try:
        return block_io(name, document.classes[name], _devices, str(file))
    except (ValueError, NotImplementedError) as error:  # of a pattern
        raise Invalid(f"blockio_config_file {file}: Classes.{name}: Devices: {error}") from error


def _devices(pattern: str) -> Sequence[Device]:
    """The block devices of a pattern of paths; what is something else is left out with a warning."""
    found: dict[Device, None] = {}
    if any("**" in part and part != "**" for part in pattern.split("/")):
        # Python 3.13 takes it for "*".
        raise ValueError(f"'**' is only possible as a whole component: {pattern!r}")
    for path in sorted(Path("/").glob(pattern.lstrip("/"))) if pattern.startswith("/") else ():
        try:
            facts = path.stat()
        except OSError:
            continue
        if stat.S_ISBLK(facts.st_mode):
            found[Device(os.major(facts.st_rdev), os.minor(facts.st_rdev))] = None
    if not found:
        _log.warning("block I/O parameters without effect: no block device", extra={"pattern": pattern})
    return list(found)


def _rdt(name: str, container: str, files: ResourceClassFiles) -> str:
    check_rdt_class(name)
    if not (files.resctrl / "schemata").exists():
        if files.ignore_rdt:
            return ""
        raise Invalid(
            f"container {container} has the RDT class {name!r}, but {files.resctrl} is not mounted; mount -t resctrl "
            f"resctrl {files.resctrl}"
        )
    if not (files.resctrl / name / "schemata").exists():
        raise NotFound(f"container {container}: RDT class {name!r} is no group in {files.resctrl}; create it there")
    return name
