"""Common part of configMap, secret, downwardAPI and projected volumes: volumes whose files the agent writes.

The contents are computed on the event loop from objects in memory; writing them is the blocking part
(`kinds/atomic_writer.py`).
"""

from collections.abc import Callable
from typing import TypeVar

from pykubelet.base.errors import NotFound
from pykubelet.base.files.safe_path import close_quietly, mkdir_in_root
from pykubelet.kubelet.actuate.volumes.kinds import directories
from pykubelet.kubelet.actuate.volumes.kinds.atomic_writer import write_payload
from pykubelet.kubelet.actuate.volumes.kinds.empty_dir import make_in_memory
from pykubelet.kubelet.actuate.volumes.plan import pod_volumes
from pykubelet.kubelet.actuate.volumes.plan.payload import (
    FileProjection,
    Payload,
    clean_payload,
    config_map_payload,
    digest,
    secret_payload,
    total_size,
)
from pykubelet.kubelet.actuate.volumes.volume_types import SetUpRequest, VolumeAttributes, Work
from pykubelet.models.core_v1 import ConfigMap, KeyToPath, Secret

CONTENT_ATTRIBUTES = VolumeAttributes(read_only=True)
_MOUNT_POINT_MODE = 0o755
_Object = TypeVar("_Object", ConfigMap, Secret)


def on_disk(request: SetUpRequest) -> None:
    """Create the directory of a volume that holds no secrets (configMap)."""
    directories.make_on_disk(request.path, request.fs_group)


def in_memory(request: SetUpRequest) -> None:
    """Create the directory of a volume that holds secrets, or facts that are stale after a reboot."""
    make_in_memory(request)


def content_work(request: SetUpRequest, payload: Payload, make_directory: Callable[[SetUpRequest], None]) -> Work:
    """Return the work for a volume with these files. Raises Invalid for invalid paths."""
    files = clean_payload(payload)

    def run() -> None:
        make_directory(request)
        for relative in pod_volumes.nested_mount_points(request.pod, request.volume.name):
            close_quietly(mkdir_in_root(request.path, relative, _MOUNT_POINT_MODE))
        write_payload(request.path, files, now=request.now, fs_group=request.fs_group)

    return Work(run, digest(files, request.fs_group), total_size(files))


def read_config_map(
    request: SetUpRequest, name: str, items: tuple[KeyToPath, ...], default_mode: int | None, *, optional: bool
) -> dict[str, FileProjection]:
    """Files of a ConfigMap in the pod's namespace; none if it is missing and optional. Raises NotFound."""
    config_map = _read(request, name, request.context.config.get_config_map, ConfigMap() if optional else None)
    return config_map_payload(config_map, items, default_mode, optional=optional)


def read_secret(
    request: SetUpRequest, name: str, items: tuple[KeyToPath, ...], default_mode: int | None, *, optional: bool
) -> dict[str, FileProjection]:
    """Files of a Secret in the pod's namespace; none if it is missing and optional. Raises NotFound."""
    secret = _read(request, name, request.context.config.get_secret, Secret() if optional else None)
    return secret_payload(secret, items, default_mode, optional=optional)


def _read(request: SetUpRequest, name: str, get: Callable[[str, str], _Object], otherwise: _Object | None) -> _Object:
    """Return an object in the pod's namespace, else ``otherwise``. Raises NotFound if that is None."""
    try:
        return get(request.pod.metadata.namespace or "default", name)
    except NotFound:
        if otherwise is None:
            raise
        return otherwise
