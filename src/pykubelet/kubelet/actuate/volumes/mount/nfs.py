"""nfs: an export of an NFS server, mounted into the pod's directory by `mount.nfs`, which contacts the server first.

A server that is not responding delays only the pods that use it.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pykubelet.base import proc
from pykubelet.base.errors import Invalid, Unsupported
from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.volumes.volume_source import Source

NAME: Final = "kubernetes.io/nfs"
_HELPER: Final = "mount.nfs"
_HELPER_PATH: Final = "/usr/sbin:/sbin:/usr/bin:/bin"


def mount_command(source: Source, target: Path) -> Sequence[str]:
    """Return the program and its arguments. Raises Invalid without a server or an absolute path."""
    nfs = source.volume.nfs
    assert nfs is not None
    if not nfs.server or not nfs.path.startswith("/"):
        raise Invalid(
            f"invalid nfs volume {source.name}: server {nfs.server!r}, path {nfs.path!r}: set both, the path absolute"
        )
    server = f"[{nfs.server}]" if ":" in nfs.server else nfs.server
    options = list(source.pv.spec.mount_options) if source.pv is not None else []
    # Read-only is set by the claim's volume in the pod, or by the nfs volume itself.
    if source.read_only or (source.pv is None and nfs.read_only):
        options.append("ro")
    chosen = ("-o", ",".join(dict.fromkeys(options))) if options else ()
    return (_HELPER, f"{server}:{nfs.path}", str(target), *chosen)


async def mount(source: Source, target: Path, timeout: Seconds, search_path: str = _HELPER_PATH) -> None:
    """Mount the export on an existing directory. Raises base errors with the output of `mount.nfs`."""
    _, *arguments = mount_command(source, target)
    helper = shutil.which(_HELPER, path=search_path)
    if helper is None:
        raise Unsupported(f"{_HELPER} is not installed on this node; on Debian: apt-get install nfs-common")
    await proc.run([helper, *arguments], timeout=timeout)
