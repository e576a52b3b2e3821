"""What configMap, secret, downwardAPI and projected volumes have in common: files written by the agent.

The files are worked out on the event loop, from objects in memory; writing them is the blocking part.
"""

from collections.abc import Callable

from pykubelet.base.errors import NotFound
from pykubelet.base.safe_path import close_quietly, mkdir_in_root
from pykubelet.kubelet.actuate.volumes import decide, directories
from pykubelet.kubelet.actuate.volumes.atomic_writer import write_payload
from pykubelet.kubelet.actuate.volumes.empty_dir import make_in_memory
from pykubelet.kubelet.actuate.volumes.payload import (
    FileProjection,
    Payload,
    clean_payload,
    config_map_payload,
    digest,
    secret_payload,
)
from pykubelet.kubelet.actuate.volumes.types import Attributes, Request, Work
from pykubelet.models.core_v1 import ConfigMap, KeyToPath, Secret

CONTENT_ATTRIBUTES = Attributes(read_only=True)
_MOUNT_POINT_MODE = 0o755


def on_disk(request: Request) -> None:
    """The directory of a configMap volume, which is not secret."""
    directories.make_on_disk(request.path, request.fs_group)


def in_memory(request: Request) -> None:
    """The directory of volumes that hold secrets or facts that go stale with a reboot."""
    make_in_memory(request)


def content_work(request: Request, payload: Payload, make_directory: Callable[[Request], None]) -> Work:
    """The work for a volume that shows these files. Invalid for impossible paths."""
    files = clean_payload(payload)

    def run() -> None:
        make_directory(request)
        for relative in decide.nested_mount_points(request.pod, request.volume.name):
            close_quietly(mkdir_in_root(request.path, relative, _MOUNT_POINT_MODE))
        write_payload(request.path, files, now=request.now, fs_group=request.fs_group)

    return Work(run, digest(files, request.fs_group))


def read_config_map(
    request: Request, name: str, items: tuple[KeyToPath, ...], default_mode: int | None, *, optional: bool
) -> dict[str, FileProjection]:
    """The files of a ConfigMap of the pod's namespace; a missing one has none if it is optional, else NotFound."""
    namespace = request.pod.metadata.namespace or "default"
    try:
        config_map = request.context.config.get_config_map(namespace, name)
    except NotFound:
        if not optional:
            raise
        config_map = ConfigMap()
    return config_map_payload(config_map, items, default_mode, optional=optional)


def read_secret(
    request: Request, name: str, items: tuple[KeyToPath, ...], default_mode: int | None, *, optional: bool
) -> dict[str, FileProjection]:
    """The same for a Secret."""
    namespace = request.pod.metadata.namespace or "default"
    try:
        secret = request.context.config.get_secret(namespace, name)
    except NotFound:
        if not optional:
            raise
        secret = Secret()
    return secret_payload(secret, items, default_mode, optional=optional)
