"""Decisions about volumes that only depend on the pod. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from posixpath import normpath
from typing import Final

from pykubelet.base.errors import Invalid, NotFound, PykubeletError
from pykubelet.base.expand import expand, references
from pykubelet.base.text import printable
from pykubelet.base.units import Bytes
from pykubelet.kubelet.actuate.actuate_types import Propagation
from pykubelet.kubelet.types.podspec import each_container
from pykubelet.kubelet.types.reports.events import Reason
from pykubelet.kubelet.types.resources.pod_requests import HUGEPAGES_PREFIX, MEMORY, limit_declared, pod_limits
from pykubelet.kubelet.types.runtime import PodRuntimeStatus
from pykubelet.kubelet.types.storage import AttachLimitExceeded
from pykubelet.models.core_v1 import Pod, Volume, VolumeMount, VolumeProjection
from pykubelet.models.quantity import parse, to_bytes
from pykubelet.models.scalars import Quantity

EMPTY_DIR: Final = "empty_dir"
HUGE_PAGES: Final = "HugePages"
_SUPPORTED: Final = (
    "configMap, csi, downwardAPI, emptyDir, ephemeral, hostPath, image, nfs, persistentVolumeClaim, projected, secret"
)
_LONGEST_PATH: Final = 4095
_MADE_OF_OBJECTS: Final = (EMPTY_DIR, "config_map", "secret", "downward_api")
_NEVER: Final = {
    "git_repo": "gitRepo volumes are not supported, since they let pods run commands on the node (CVE-2024-10220); "
    "clone into an emptyDir with an init container instead"
}


def source_of(volume: Volume) -> str:
    """Return the field of the volume that is set (`config_map`, for example); without one it is an emptyDir."""
    return next(
        (name for name in volume.__struct_fields__ if name != "name" and getattr(volume, name) is not None),
        EMPTY_DIR,
    )


def failure_reason(error: PykubeletError, status: PodRuntimeStatus) -> str:
    """Return the reason of the failure of a pod whose volumes are not set up: it waits, or has to run elsewhere.

    A pod that has running containers, and so had its volumes, waits in any case.
    """
    if isinstance(error, AttachLimitExceeded) and not status.running:
        return Reason.VOLUME_ATTACHMENT_LIMIT_EXCEEDED
    return Reason.FAILED_MOUNT


def unsupported(source: str) -> str:
    """Message for a kind of volume that this agent does not support."""
    if source in _NEVER:
        return _NEVER[source]
    first, *rest = source.split("_")
    kind = first + "".join(part.capitalize() for part in rest)
    return f"volumes of kind {kind} are not supported by this agent, only {_SUPPORTED}"


def tmpfs_size(pod: Pod, allocatable: Quantity | None, size_limit: Quantity | None) -> Bytes | None:
    """Size limit of a volume in memory: the minimum of node allocatable, the pod's memory limit and the volume's own.

    None leaves it to the kernel (half of the memory). Raises Invalid for an invalid quantity.
    """
    bounds: list[Bytes] = []
    if allocatable is not None:
        bounds.append(to_bytes(allocatable))
    if limit_declared(pod, MEMORY):
        bounds.append(pod_limits(pod).memory)
    if size_limit is not None:
        bounds.append(to_bytes(size_limit))
    return min((bound for bound in bounds if bound > 0), default=None)


def huge_page_size(pod: Pod, medium: str) -> Bytes:
    """Page size of a volume with the medium `HugePages` (the one size that the pod requests) or `HugePages-2Mi`.

    Raises Invalid if the pod requests no such pages, or several sizes where the medium names none.
    """
    requested = {size for names in _requests(pod) for size in _page_sizes(names)}
    if medium != HUGE_PAGES:
        wanted = to_bytes(medium.removeprefix(f"{HUGE_PAGES}-"))
        if wanted in requested:
            return wanted
    elif len(requested) > 1:
        raise Invalid(f"medium: {medium} can't be used if container requests multiple huge page sizes")
    elif requested:
        return requested.pop()
    raise Invalid(f"medium {medium}: hugePages storage requested, but there is no resource request for huge pages")


def _requests(pod: Pod) -> Iterator[Iterable[str]]:
    if pod.spec.resources:
        yield pod.spec.resources.requests
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        if container.resources:
            yield container.resources.requests


def _page_sizes(names: Iterable[str]) -> Iterator[Bytes]:
    for name in names:
        if name.startswith(HUGEPAGES_PREFIX):
            yield Bytes(parse(name.removeprefix(HUGEPAGES_PREFIX)).value)


def nested_mount_points(pod: Pod, volume: str) -> tuple[str, ...]:
    """Directories that must exist in a volume because containers mount other volumes below its mount point.

    The paths are relative to the volume's root. In a read-only volume the runtime could not create them.
    """
    found: dict[str, None] = {}
    for _, container in each_container(pod):
        places = sorted(_parts(mount.mount_path) for mount in container.volume_mounts)
        for mount in container.volume_mounts:
            if mount.name != volume:
                continue
            own = _parts(mount.mount_path)
            last: list[str] | None = None
            for place in places:
                if len(place) <= len(own) or place[: len(own)] != own:
                    continue
                if last is not None and place[: len(last)] == last:
                    continue  # lies in a mount that lies in this volume
                last = place
                found["/".join(place[len(own) :])] = None
    return tuple(found)


def _parts(path: str) -> list[str]:
    return [part for part in normpath(path).split("/") if part]


def sub_path(mount: VolumeMount, env: Mapping[str, str]) -> str:
    """Return the path inside the volume that a container mounts; empty for the whole volume.

    `subPathExpr` is expanded with the container's environment. Raises NotFound for a variable that is unset or
    empty, Invalid for a path that could lead out of the volume.
    """
    path = mount.sub_path
    if mount.sub_path_expr:
        missing = sorted({name for name in references(mount.sub_path_expr) if not env.get(name)})
        if missing:
            raise NotFound(f"missing value for {', '.join(missing)}")
        path = expand(mount.sub_path_expr, env, _LONGEST_PATH)
    if path.startswith("/"):
        raise Invalid(f"error SubPath `{printable(path)}` must not be an absolute path")
    if ".." in path.split("/"):
        raise Invalid(f"unable to provision SubPath `{printable(path)}`: must not contain '..'")
    return path


def propagation(mount: VolumeMount) -> Propagation:
    """Mount propagation of the mount; private by default. Raises Invalid."""
    if not mount.mount_propagation:
        return Propagation.PRIVATE
    try:
        return Propagation(mount.mount_propagation)
    except ValueError as error:
        raise Invalid(f'invalid MountPropagation mode: "{mount.mount_propagation}"') from error


def recursive_read_only(mount: VolumeMount, supported: bool) -> bool:
    """Whether nested mounts are read-only too (KEP-3857). Raises Invalid if it is required but not possible."""
    mode = mount.recursive_read_only
    if mode in ("", "Disabled"):
        return False
    asked = f'volume "{mount.name}" requested recursive read-only mode, but it is'
    if not mount.read_only:
        raise Invalid(f"{asked} not read-only")
    if mount.mount_propagation not in ("", "None"):
        raise Invalid(f'{asked} not compatible with propagation "{mount.mount_propagation}"')
    match mode:
        case "IfPossible":
            return supported
        case "Enabled":
            if not supported:
                raise Invalid(f"{asked} not supported by the runtime")
            return True
        case _:
            raise Invalid(f'unknown recursive read-only mode "{mode}"')


def container_path(path: str) -> str:
    """The path in the container, made absolute."""
    return path if path.startswith("/") else f"/{path}"


def only_shows_objects(pod: Pod) -> bool:
    """Whether the pod's volumes depend on nothing but tokens and the ConfigMaps and Secrets that they contain."""
    return all(
        source_of(volume) in _MADE_OF_OBJECTS
        or (volume.projected is not None and all(_plain_projection(each) for each in volume.projected.sources))
        for volume in pod.spec.volumes
    )


def _plain_projection(source: VolumeProjection) -> bool:
    return source.cluster_trust_bundle is None and source.pod_certificate is None


def referenced_objects(pod: Pod) -> frozenset[tuple[str, str]]:
    """Kind (`ConfigMap`, `Secret`) and name of the objects in the pod's namespace that its volumes contain.

    When one of them changes, the pod has to be synced, which updates the files.
    """
    found: set[tuple[str, str]] = set()
    for volume in pod.spec.volumes:
        if volume.config_map is not None:
            found.add(("ConfigMap", volume.config_map.name))
        if volume.secret is not None:
            found.add(("Secret", volume.secret.secret_name))
        for source in volume.projected.sources if volume.projected else ():
            if source.config_map is not None:
                found.add(("ConfigMap", source.config_map.name))
            if source.secret is not None:
                found.add(("Secret", source.secret.name))
    return frozenset(found)
