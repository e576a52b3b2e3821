"""Input of ``pykubelet check``: the files of its arguments, the agent's node, and the capacity of the machine."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from pykubelet.base.errors import Permanent
from pykubelet.base.files.decoding import convert
from pykubelet.base.files.regular_file import is_plain_name
from pykubelet.base.text import printable
from pykubelet.base.units import Bytes
from pykubelet.cli.changes.manifest_files import STDIN, STDIN_NAME
from pykubelet.cli.client.local_api import LocalApi
from pykubelet.kubelet.desired.check import CheckSource
from pykubelet.kubelet.desired.manifest.manifest_types import MAX_BYTES, Manifest, Problem
from pykubelet.kubelet.desired.manifest_file import check_file, check_text
from pykubelet.kubelet.types.reports.node_view import NodeView
from pykubelet.kubelet.types.resources.allocatable import MachineResources, node_capacity, written
from pykubelet.linux import system
from pykubelet.models.scalars import Quantity

_PATH: Final = "/pykubelet/v1/node"


def sources_of(paths: Iterable[Path]) -> list[CheckSource]:
    """Read the manifests of files, directories and the standard input, each file once."""
    found: dict[str, CheckSource] = {}
    for path in paths:
        if str(path) == STDIN:
            found.setdefault("", CheckSource(_stdin()))
            continue
        for file in _files(path):
            if isinstance(file, Manifest):
                found.setdefault(file.origin, CheckSource(file))
                continue
            absolute = printable(os.path.realpath(file.parent) + "/" + file.name)
            if absolute not in found:
                found[absolute] = CheckSource(check_file(file), absolute)
    return list(found.values())


def node_of(api: LocalApi) -> NodeView:
    """Return the node of a running agent. Raises PykubeletError, Transient if none responds."""
    try:
        return convert(api.get(_PATH), NodeView)
    except msgspec.ValidationError as error:
        raise Permanent(
            f"the agent at {api.path} is of another version, and its node cannot be read: {error}"
        ) from error


def known_manifests(node: NodeView) -> list[Manifest]:
    """Read the files that the node's pods and objects come from, for their lines; unreadable ones are left out."""
    origins = {pod.source for pod in node.pods} | {each.source for each in node.objects}
    return [check_file(origin) for origin in sorted(origins) if origin.startswith("/")]


def machine_capacity() -> Mapping[str, Quantity]:
    """Return the machine's CPUs, memory and huge pages. What an agent reserves of them is not known without one."""
    machine = MachineResources(
        cpus=system.cpu_count(),
        memory=system.meminfo().total,
        hugepages={pages.size: Bytes(pages.size * pages.total) for pages in system.hugepages()},
    )
    return written(node_capacity(machine))


def _files(path: Path) -> Iterator[Path | Manifest]:
    """Yield the file itself, or the manifests that the agent would read from a directory; a problem if it cannot be."""
    try:
        if not path.is_dir():
            yield path
            return
        entries = [entry for entry in path.iterdir() if is_plain_name(entry.name) and not entry.is_dir()]
    except OSError as error:
        name = printable(str(path))
        yield Manifest(name, problems=(Problem(name, f"cannot be read: {error.strerror}"),))
        return
    yield from sorted(entries)


def _stdin() -> Manifest:
    data = sys.stdin.buffer.read(MAX_BYTES + 1)  # one byte more, so that the parser detects a text above the limit
    return check_text(data, STDIN_NAME)
