"""Gathers what a container's spec needs from the image's files and the machine, and writes its bundle. Blocking."""

import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from pykubelet.base.atomic import write_atomic
from pykubelet.base.errors import Invalid, NotFound, Permanent
from pykubelet.base.safe_path import close_quietly, mkdir_in_root, open_in_root, proc_path
from pykubelet.criserver.spec import HostDevice
from pykubelet.criserver.spec.types import Json
from pykubelet.criserver.spec.userns import check_mount
from pykubelet.criserver.storage.remove import remove_any
from pykubelet.criserver.types import UserNamespace
from pykubelet.linux.errors import wrap
from pykubelet.linux.idmap import mount_mapped
from pykubelet.linux.mountinfo import mount_of, mounts
from pykubelet.linux.mounts import unmount_all_under
from pykubelet.pb import runtime_v1_pb2 as pb

_MAX_PROFILE = 1 << 20


def make_volumes(rootfs: Path, volumes: tuple[str, ...], mounted: set[str], user: UserNamespace | None = None) -> None:
    """Make the directories that the image declares as volumes, unless the request mounts something there.

    They stay part of the container's own layer; links of a hostile image do not lead out (CVE-2022-23648).
    """
    for volume in volumes:
        if volume.rstrip("/") not in mounted:
            fd = mkdir_in_root(rootfs, volume, 0o755)
            try:
                if user is not None and os.fstat(fd).st_uid == 0:
                    # Made just now: what came with the image has mapped ids already.
                    os.chown(proc_path(fd), user.ids.uid, user.ids.gid)
            finally:
                close_quietly(fd)


def map_mounts(directory: Path, asked: Iterable[pb.Mount], user: UserNamespace | None) -> dict[str, str]:
    """Mount the sources of mounts with mapped ids once more, with the pod's ids; their places by container path.

    Invalid: other ids than the pod's are asked for, or the file system cannot do that.
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
    """Unmount these; nothing but empty places is removed, never what was mounted there. Done is done."""
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


def sub_path(directory: Path, relative: str) -> str:
    """A directory inside a mounted image; links stay inside it. NotFound, Invalid."""
    if not relative:
        return str(directory)
    fd = open_in_root(directory, relative, os.O_PATH)
    try:
        return str(Path(proc_path(fd)).readlink())
    finally:
        close_quietly(fd)


def prepare_node_paths(config: pb.ContainerConfig, log_path: str) -> tuple[HostDevice, ...]:
    """Look at all paths of the node that the request names, make what is missing there, and find the devices.

    Such a path may be on a file system that does not respond: nothing here touches what is the container's own, so
    that a call that was given up does no harm later. Errors: Invalid, Permanent, Transient.
    """
    make_sources(config.mounts)
    check_propagation(config.mounts)
    if log_path:
        _make_directory(Path(log_path).parent, "the directory of its log")
    return find_devices(config)


def _make_directory(directory: Path, what: str) -> None:
    try:
        directory.mkdir(0o755, parents=True, exist_ok=True)
    except OSError as error:
        raise wrap(error, f"cannot make {what}, {directory}") from error


def make_sources(asked: Iterable[pb.Mount]) -> None:
    """Make missing host directories of mounts, as container runtimes do. Invalid when a path is not absolute."""
    for mount in asked:
        if mount.HasField("image"):
            continue
        if not mount.host_path.startswith("/"):
            raise Invalid(f"mount {mount.container_path}: the host path {mount.host_path!r} must be absolute")
        if not os.path.lexists(mount.host_path):
            _make_directory(Path(mount.host_path), f"the source of mount {mount.container_path}")


def check_propagation(asked: Iterable[pb.Mount]) -> None:
    """Permanent: a mount is to propagate, but lies on one of the node's mounts that propagates nothing.

    It would be made all the same, and what is mounted below it later would silently be missing.
    """
    # The mount table is read only for who asks.
    wanted = [each for each in asked if each.propagation != pb.PROPAGATION_PRIVATE and not each.HasField("image")]
    table = mounts() if wanted else []
    for each in wanted:
        below = mount_of(table, os.path.realpath(each.host_path))
        kinds = {tag.partition(":")[0] for tag in below.tags} if below else set()
        needed = {"shared"} if each.propagation == pb.PROPAGATION_BIDIRECTIONAL else {"shared", "master"}
        if not kinds & needed:
            place, kind = below.path if below else "/", "shared" if len(needed) == 1 else "shared or slave"
            raise Permanent(
                f"mount {each.container_path}: {each.host_path} is on {place}, which is not a {kind} mount, so that "
                f"nothing would propagate; make it one: mount --make-rshared {place}"
            )


def find_devices(config: pb.ContainerConfig) -> tuple[HostDevice, ...]:
    """The device nodes asked for; for a privileged container all there are, besides.

    Invalid for a path that is no device. A directory stands for the devices in it.
    """
    found: dict[str, HostDevice] = {}
    if config.linux.security_context.privileged:
        found |= {device.target: device for device in _all_devices(Path("/dev"), "/dev", "rwm")}
    for asked in config.devices:
        access = asked.permissions or "rwm"
        source = Path(asked.host_path).resolve()
        if source.is_dir():
            found |= {device.target: device for device in _all_devices(source, asked.container_path, access)}
            continue
        device = device_at(source, asked.container_path, access)
        if device is None:
            raise Invalid(f"device {asked.host_path} does not exist or is no device")
        found[device.target] = device
    return tuple(found.values())


# What the container gets of its own, and the terminals of others.
_OWN = frozenset(("pts", "shm", "fd", "mqueue", "console", "ptmx", "null", "zero", "full", "random", "urandom", "tty"))


def _all_devices(directory: Path, target: str, access: str) -> Iterator[HostDevice]:
    for entry in os.scandir(directory):
        if entry.name in _OWN or entry.is_symlink():
            continue
        below = f"{target.rstrip('/')}/{entry.name}"
        if entry.is_dir():
            yield from _all_devices(Path(entry.path), below, access)
        else:
            device = device_at(Path(entry.path), below, access)
            if device is not None:
                yield device


def device_at(path: Path, target: str, access: str) -> HostDevice | None:
    """A device file of the node, to appear at ``target``; None when there is none."""
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
    """A seccomp profile of the node: an absolute path as CRI wants it, or one below ``directory``.

    Invalid when the reference is empty (CVE-2023-2431), a relative one leaves the directory, or it is no profile.
    """
    if not reference:
        raise Invalid("a Localhost seccomp profile needs a path")
    path = Path(reference) if reference.startswith("/") else directory / reference
    if ".." in path.parts:
        raise Invalid(f"seccomp profile {reference!r} must not contain '..'")
    try:
        # Without O_NONBLOCK a FIFO would hold this thread for ever.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise Invalid(f"seccomp profile {path} is no regular file")
            data = os.read(fd, _MAX_PROFILE + 1)
        finally:
            os.close(fd)
        if len(data) > _MAX_PROFILE:
            raise Invalid(f"seccomp profile {path} is larger than {_MAX_PROFILE >> 20} MiB")
        profile = json.loads(data)
    except (OSError, ValueError, RecursionError) as error:
        raise Invalid(f"seccomp profile {path} cannot be read: {error}") from error
    if not isinstance(profile, dict):
        raise Invalid(f"seccomp profile {path} must be one object")
    return profile


def write_bundle(bundle: Path, spec: Json) -> None:
    """Make the bundle's directory with its config.json."""
    bundle.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomic(bundle / "config.json", json.dumps(spec).encode(errors="surrogateescape"))


def read_bundle(bundle: Path) -> Json:
    """The spec that a container was made with."""
    spec = json.loads((bundle / "config.json").read_bytes())
    assert isinstance(spec, dict), "our own file"
    return spec


def remove_bundle(bundle: Path) -> None:
    """Remove it; done is done. Raises as ``remove_any``."""
    remove_any(str(bundle))
