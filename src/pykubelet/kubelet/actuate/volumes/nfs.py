"""nfs: an export of a file server, mounted into the pod's directory by `mount.nfs`, which talks to the server first.

A server that does not answer holds up the pods that want it, and no others.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pykubelet.base import proc
from pykubelet.base.errors import Invalid, Unsupported
from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.volumes.source import Source

NAME: Final = "kubernetes.io/nfs"
_HELPER: Final = "mount.nfs"
_PLACES: Final = "/usr/sbin:/sbin:/usr/bin:/bin"


def mount_command(source: Source, target: Path) -> Sequence[str]:
    """The program and its arguments. Invalid for a volume that names no server or no absolute path."""
    nfs = source.volume.nfs
    assert nfs is not None
    if not nfs.server or not nfs.path.startswith("/"):
        raise Invalid(f"nfs volume {source.name}: server {nfs.server!r} and an absolute path {nfs.path!r} are needed")
    server = f"[{nfs.server}]" if ":" in nfs.server else nfs.server
    options = list(source.pv.spec.mount_options) if source.pv is not None else []
    # For a claim it is the claim that says read-only, else the volume.
    if source.read_only or (source.pv is None and nfs.read_only):
        options.append("ro")
    chosen = ("-o", ",".join(dict.fromkeys(options))) if options else ()
    return (_HELPER, f"{server}:{nfs.path}", str(target), *chosen)


async def mount(source: Source, target: Path, timeout: Seconds, places: str = _PLACES) -> None:
    """Mount the export on a directory that is there. Base errors say what `mount.nfs` said."""
    _, *arguments = mount_command(source, target)
    helper = shutil.which(_HELPER, path=places)
    if helper is None:
        raise Unsupported(f"{_HELPER} is not installed on this node; on Debian: apt-get install nfs-common")
    await proc.run([helper, *arguments], timeout=timeout)
