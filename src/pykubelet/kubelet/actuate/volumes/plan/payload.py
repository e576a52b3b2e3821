"""Computes the files of a volume (paths, bytes, modes) from ConfigMaps, Secrets and fields of the pod. Pure.

Messages are those of the Go kubelet. The caller adds the volume's name to errors.
"""

from collections.abc import Mapping, Sequence
from functools import cache, partial
from hashlib import blake2b
from typing import Final

from msgspec import Struct

from pykubelet.base.errors import Invalid, NotFound, PykubeletError
from pykubelet.base.units import MIB, Bytes
from pykubelet.kubelet.actuate.cri_messages.config_types import DownwardContext
from pykubelet.kubelet.actuate.cri_messages.environment.downward import field_value, resource_value
from pykubelet.kubelet.types.podspec import find_container
from pykubelet.models.core_v1 import ConfigMap, DownwardAPIVolumeFile, KeyToPath, Pod, Secret

DEFAULT_MODE: Final = 0o644
_MAX_NAME: Final = 255
_MAX_PATH: Final = 4096
_MAX_BYTES: Final = 64 * MIB
_PERMISSIONS: Final = 0o7777


class FileProjection(Struct, frozen=True):
    """Content of a file. `uid` is its owner; None: root."""

    data: bytes
    mode: int
    uid: int | None = None


Payload = Mapping[str, FileProjection]
"""Files of a volume by path relative to its root."""


def config_map_payload(
    config_map: ConfigMap, items: Sequence[KeyToPath], default_mode: int | None, *, optional: bool
) -> dict[str, FileProjection]:
    """Files of a ConfigMap: all of its keys, or the items. Raises NotFound for a missing key unless optional."""
    # A pod can name an object often: only what it needs is encoded.
    wanted = {item.key for item in items} & config_map.data.keys() if items else config_map.data
    data: dict[str, bytes] = {key: encode(config_map.data[key]) for key in wanted}
    data |= config_map.binary_data
    return _select(data, items, default_mode, None if optional else "configmap references non-existent config key")


def secret_payload(
    secret: Secret, items: Sequence[KeyToPath], default_mode: int | None, *, optional: bool
) -> dict[str, FileProjection]:
    """Files of a Secret: all of its keys, or the items. Raises NotFound for a missing key unless optional."""
    return _select(secret.data, items, default_mode, None if optional else "references non-existent secret key")


def downward_payload(
    items: Sequence[DownwardAPIVolumeFile], pod: Pod, default_mode: int | None, context: DownwardContext
) -> dict[str, FileProjection]:
    """Files of the downward API: metadata fields and resources of containers.

    Raises Invalid with all problems, and for files that are too large together.
    """
    files: dict[str, FileProjection] = {}
    problems: list[str] = []
    size = 0
    # Any number of items may name all annotations, which take long to write.
    field = cache(partial(_field, pod, context))
    for item in items:
        try:
            data = field(item.field_ref.field_path) if item.field_ref else _resource(pod, context, item)
        except PykubeletError as error:
            problems.append(str(error))
            continue
        size += len(data)
        check_size(size)
        files[item.path] = FileProjection(data, _mode(item.mode, default_mode))
    if problems:
        raise Invalid(aggregate(problems))
    return files


def aggregate(problems: Sequence[str]) -> str:
    """Join messages without duplicates, in brackets if there is more than one, as the Go kubelet does."""
    unique = list(dict.fromkeys(problems))
    return unique[0] if len(unique) == 1 else "[" + ", ".join(unique) + "]"


def encode(text: str) -> bytes:
    """Encode text for a file; bytes that are not UTF-8 survive."""
    return text.encode("utf-8", "surrogateescape")


def clean_payload(payload: Payload) -> dict[str, FileProjection]:
    """Normalize the paths. Raises Invalid for a path outside the directory, or both a file and a directory.

    Invalid, too: the files are too large together. One key may be named by any number of items.
    """
    check_size(total_size(payload))
    files: dict[str, FileProjection] = {}
    for path, projection in payload.items():
        files[_clean_path(path)] = projection
    for path in files:
        parent = path.rpartition("/")[0]
        while parent:
            if parent in files:
                raise Invalid(f"invalid path: {parent} cannot be a file and the directory of {path}")
            parent = parent.rpartition("/")[0]
    return files


def total_size(payload: Payload) -> Bytes:
    """Bytes of all files."""
    return Bytes(sum(len(projection.data) for projection in payload.values()))


def check_size(size: int) -> None:
    """Raise Invalid if a volume has too many bytes."""
    if size > _MAX_BYTES:
        raise Invalid(f"the files have more than {_MAX_BYTES // MIB} MiB together; use fewer items of large keys")


def digest(payload: Payload, fs_group: int | None) -> bytes:
    """Digest of the files; it differs when the written files would differ."""
    state = blake2b(str(fs_group).encode(), digest_size=16)
    for path in sorted(payload):
        file = payload[path]
        head = f"\0{path}\0{file.mode:o}\0{file.uid}\0{len(file.data)}\0"
        state.update(encode(head))
        state.update(file.data)
    return state.digest()


def _select(
    data: Mapping[str, bytes], items: Sequence[KeyToPath], default_mode: int | None, complaint: str | None
) -> dict[str, FileProjection]:
    if not items:
        return {key: FileProjection(value, _mode(None, default_mode)) for key, value in data.items()}
    files: dict[str, FileProjection] = {}
    for item in items:
        if item.key in data:
            files[item.path] = FileProjection(data[item.key], _mode(item.mode, default_mode))
        elif complaint is not None:
            raise NotFound(f"{complaint}: {item.key}")
    return files


def _mode(own: int | None, default: int | None) -> int:
    mode = own if own is not None else default if default is not None else DEFAULT_MODE
    return mode & _PERMISSIONS


def _field(pod: Pod, context: DownwardContext, path: str) -> bytes:
    if not path.startswith("metadata."):
        raise Invalid(f"unsupported fieldPath: {path}")
    return encode(field_value(pod, path, context))


def _resource(pod: Pod, context: DownwardContext, item: DownwardAPIVolumeFile) -> bytes:
    if item.resource_field_ref is None:
        raise Invalid(f"file {item.path}: fieldRef or resourceFieldRef is required")
    name = item.resource_field_ref.container_name
    found = find_container(pod, name)
    if found is None:
        raise NotFound(f"container {name} not found")
    return encode(resource_value(pod, found[1], item.resource_field_ref, context))


def _clean_path(path: str) -> str:
    if not path:
        raise Invalid('invalid path: must not be empty: ""')
    if path.startswith("/"):
        raise Invalid(f"invalid path: must be relative path: {path}")
    if "\0" in path:
        raise Invalid(f"invalid path: must not contain NUL: {path!r}")
    if len(encode(path)) > _MAX_PATH:
        raise Invalid(f"invalid path: must be less than or equal to {_MAX_PATH} characters")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise Invalid(f"invalid path: must not contain '..': {path}")
    if any(len(encode(part)) > _MAX_NAME for part in parts):
        raise Invalid(f"invalid path: filenames must be less than or equal to {_MAX_NAME} characters")
    if not parts or parts[0].startswith(".."):
        raise Invalid(f"invalid path: must name a file and not start with '..': {path}")
    return "/".join(parts)
