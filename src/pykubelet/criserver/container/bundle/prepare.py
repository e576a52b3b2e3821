"""Prepares the files of a container: mounts, devices, seccomp profile, bundle. Blocking."""

import errno
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from pykubelet.base.errors import Invalid, NotFound, Permanent
from pykubelet.base.files.atomic import write_atomic
from pykubelet.base.files.deep_path import check_links, make_directories
from pykubelet.base.files.path_length import SHOWN, check_length
from pykubelet.base.files.safe_path import close_quietly, open_in_root, proc_path
from pykubelet.criserver.conmon import clear_log_place
from pykubelet.criserver.spec import HandlerOptions, HostDevice
from pykubelet.criserver.spec.spec_types import Json
from pykubelet.criserver.spec.userns import check_mount
from pykubelet.criserver.storage.remove import remove_any
from pykubelet.criserver.types import UserNamespace
from pykubelet.linux.errors import wrap
from pykubelet.linux.filesystems.idmap import mount_mapped
from pykubelet.linux.filesystems.mountinfo import mount_of, mounts
from pykubelet.linux.filesystems.mounts import unmount_all_under
from pykubelet.linux.selinux import relabel
from pykubelet.pb import runtime_v1_pb2 as pb

_MAX_PROFILE = 1 << 20
_DEFAULTS = HandlerOptions()


def map_mounts(directory: Path, asked: Iterable[pb.Mount], user: UserNamespace | None) -> dict[str, str]:
    """Create ID-mapped mounts of the sources of mounts with mapped ids; their paths by container path.

    Invalid: ids other than the pod's are requested, or the file system does not support ID-mapped mounts.
    """
    ids, places = (user.ids if user else None), {}
    for number, mount in enumerate(asked):
        if check_mount(mount, ids) and user is not None:
            source, place = Path(mount.host_path), directory / str(number)
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if source.is_dir():
                place.mkdir(mode=0o700)
            else:
                place.touch(mode=0o600)
            mount_mapped(str(source), str(place), user.path, recursive=True)
            places[mount.container_path] = str(place)
    return places


def drop_mapped(directory: Path) -> None:
    """Unmount ID-mapped mounts. Removes only the empty mount points, never what was mounted. Idempotent."""
    if not directory.is_dir():
        return
    with suppress(NotFound):
        unmount_all_under(str(directory), lazy=True)
    try:
        for place in directory.iterdir():
            if place.is_dir():
                place.rmdir()
            else:
                place.unlink()
        directory.rmdir()
    except OSError as error:
        raise wrap(error, f"cannot remove mounted volumes in {directory}") from error


def relabel_all(paths: Iterable[str], label: str, stop: Callable[[], bool]) -> None:
    """Give all files in these directories an SELinux label. Errors as of `relabel`."""
    for path in paths:
        relabel(path, label, stop)


def sub_path(directory: Path, relative: str) -> str:
    """Resolve a path inside a mounted image; links cannot lead outside. NotFound, Invalid.

    The errors do not name the directory, which each attempt has another one of: events of the same text are counted.
    """
    if not relative:
        return str(directory)
    shown = relative if len(relative) <= SHOWN else f"{relative[:SHOWN]}…"
    try:
        fd = open_in_root(directory, relative, os.O_PATH)
    except NotFound as error:
        raise NotFound(f"the image of a mount has no {shown!r}, its subPath") from error
    except Invalid as error:
        why = "too many directories or links, a name that is too long, or a file in the place of a directory"
        raise Invalid(f"subPath {shown!r} of an image cannot be followed: {why}") from error
    try:
        return str(Path(proc_path(fd)).readlink())
    except OSError as error:  # the kernel does not tell a path that is too long to be mounted
        raise wrap(error, f"cannot mount subPath {shown!r} of an image") from error
    finally:
        close_quietly(fd)


def prepare_node_paths(
    config: pb.ContainerConfig, log_path: str, options: HandlerOptions = _DEFAULTS
) -> tuple[HostDevice, ...]:
    """Check the host paths of the request, create missing ones, and find the devices.

    A path may be on a file system that does not respond: this function changes none of the container's own files, so
    that a call that was abandoned does no harm later. Errors: Invalid, Permanent, Transient.
    """
    make_sources(config.mounts)
    check_propagation(config.mounts)
    if log_path:
        _make_directory(Path(log_path).parent, "the directory of its log")
        clear_log_place(Path(log_path))
    return find_devices(config, options)


def _make_directory(directory: Path, what: str) -> None:
    try:
        make_directories(str(directory), 0o755)
    except OSError as error:
        raise wrap(error, f"cannot create {what}, {directory}") from error


def make_sources(asked: Iterable[pb.Mount]) -> None:
    """Create missing host directories of mounts, as container runtimes do. Invalid: a path is not absolute."""
    for mount in asked:
        if mount.HasField("image"):
            continue
        if not mount.host_path.startswith("/"):
            raise Invalid(f"mount {mount.container_path}: the host path {mount.host_path!r} must be absolute")
        check_length(mount.host_path, f"mount {mount.container_path[:SHOWN]}: the host path")
        if not os.path.lexists(mount.host_path):
            _make_directory(Path(mount.host_path), f"the source of mount {mount.container_path}")


def check_propagation(asked: Iterable[pb.Mount]) -> None:
    """Raise Permanent if a mount requests propagation, but its source is on a host mount without propagation.

    Otherwise the mount would succeed, and what is mounted below it later would silently be missing.
    """
    # The mount table is read only if needed.
    wanted = [each for each in asked if each.propagation != pb.PROPAGATION_PRIVATE and not each.HasField("image")]
    table = mounts() if wanted else []
    for each in wanted:
        below = mount_of(table, _without_links(each.host_path))
        kinds = {tag.partition(":")[0] for tag in below.tags} if below else set()
        needed = {"shared"} if each.propagation == pb.PROPAGATION_BIDIRECTIONAL else {"shared", "master"}
        if not kinds & needed:
            place, kind = below.path if below else "/", "shared" if len(needed) == 1 else "shared or slave"
            raise Permanent(
                f"mount {each.container_path}: {each.host_path} is on {place}, which is not a {kind} mount, so that "
                f"nothing would propagate; make it one: mount --make-rshared {place}"
            )


def find_devices(config: pb.ContainerConfig, options: HandlerOptions = _DEFAULTS) -> tuple[HostDevice, ...]:
    """Find the requested device nodes; for a privileged container, also all of the host unless the handler forbids it.

    A directory stands for the devices in it. Invalid: a path is not a device.
    """
    found: dict[str, HostDevice] = {}
    for device in _requested(config):
        found[device.target] = _owned(device, config, options)
    if config.linux.security_context.privileged and not options.privileged_without_host_devices:
        found = {device.target: device for device in _all_devices(Path("/dev"), "/dev", "rwm")} | found
    return tuple(found.values())


def _owned(device: HostDevice, config: pb.ContainerConfig, options: HandlerOptions) -> HostDevice:
    """The device with the user and group of the security context, if the server's configuration wants that."""
    if not options.device_ownership_from_security_context:
        return device
    context = config.linux.security_context
    return replace(device, uid=context.run_as_user.value or device.uid, gid=context.run_as_group.value or device.gid)


def _requested(config: pb.ContainerConfig) -> Iterator[HostDevice]:
    for asked in config.devices:
        check_length(asked.container_path, "the path of a device in the container")
        access = asked.permissions or "rwm"
        source = Path(_without_links(asked.host_path))
        if _is_directory(source):
            yield from _all_devices(source, asked.container_path, access)
            continue
        device = device_at(source, asked.container_path, access)
        if device is None:
            raise Invalid(f"device {asked.host_path} does not exist or is not a device")
        yield device


# Devices that each container gets itself, and terminals of other processes.
_OWN = frozenset(("pts", "shm", "fd", "mqueue", "console", "ptmx", "null", "zero", "full", "random", "urandom", "tty"))


def _without_links(path: str) -> str:
    """The path without links, whether it exists or not. Invalid: more links than the kernel follows."""
    check_length(path, "a host path")
    try:
        check_links(path)
        return os.path.realpath(path)
    except (OSError, RecursionError):
        raise Invalid(f"too many links on the way of {path}") from None


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # it is too long, as links may make it
        return False


def _all_devices(directory: Path, target: str, access: str) -> Iterator[HostDevice]:
    """The devices below a directory, those left out that have no path which the kernel takes."""
    todo = [(str(directory), target.rstrip("/"))]
    while todo:
        above, shown = todo.pop()
        for entry in _entries(above):
            if entry.name in _OWN or entry.is_symlink():
                continue
            below = f"{shown}/{entry.name}"
            if entry.is_dir():
                todo.append((entry.path, below))
            elif device := device_at(Path(entry.path), below, access):
                yield device


def _entries(directory: str) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR):
            return []
        raise wrap(error, f"cannot look for devices in {directory}") from error


def device_at(path: Path, target: str, access: str) -> HostDevice | None:
    """Describe a device file of the node, to appear at ``target``; None: it does not exist or is not a device."""
    try:
        found = path.stat()
    except OSError:
        return None
    kind = "c" if stat.S_ISCHR(found.st_mode) else "b" if stat.S_ISBLK(found.st_mode) else ""
    if not kind:
        return None
    major, minor = os.major(found.st_rdev), os.minor(found.st_rdev)
    return HostDevice(target, kind, major, minor, found.st_mode, found.st_uid, found.st_gid, access)


def read_profile(directory: Path, reference: str) -> Json:
    """Read a seccomp profile of the node: an absolute path as in CRI, or a path relative to ``directory``.

    Invalid: the reference is empty (CVE-2023-2431), a relative one leaves the directory, or the file is not a profile.
    """
    if not reference:
        raise Invalid("a Localhost seccomp profile needs a path")
    path = Path(reference) if reference.startswith("/") else directory / reference
    if ".." in path.parts:
        raise Invalid(f"seccomp profile {reference!r} must not contain '..'")
    try:
        # Without O_NONBLOCK, opening a FIFO would block this thread forever.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise Invalid(f"seccomp profile {path} is not a regular file")
            data = os.read(fd, _MAX_PROFILE + 1)
        finally:
            os.close(fd)
        if len(data) > _MAX_PROFILE:
            raise Invalid(f"seccomp profile {path} is larger than {_MAX_PROFILE >> 20} MiB")
        profile = json.loads(data)
    except (OSError, ValueError, RecursionError) as error:
        raise Invalid(f"seccomp profile {path} cannot be read: {error}") from error
    if not isinstance(profile, dict):
        raise Invalid(f"seccomp profile {path} must be a JSON object")
    return profile


def write_bundle(bundle: Path, spec: Json) -> None:
    """Create the bundle directory with its config.json."""
    bundle.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomic(bundle / "config.json", json.dumps(spec).encode(errors="surrogateescape"))


def read_bundle(bundle: Path) -> Json:
    """Read the spec of a container."""
    spec = json.loads((bundle / "config.json").read_bytes())
    assert isinstance(spec, dict), "our own file"
    return spec


def remove_bundle(bundle: Path) -> None:
    """Remove the bundle; no error if missing. Errors as of ``remove_any``."""
    remove_any(str(bundle))
