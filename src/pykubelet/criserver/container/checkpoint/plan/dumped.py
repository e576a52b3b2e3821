"""The dumped container as a checkpoint describes it, and whether it fits the one that is to be restored. Pure.

The new container's specification decides what that may do. What CRIU restores from the checkpoint instead (mounts,
user, capabilities, confinement) must therefore be the same, or less.
"""

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

import msgspec
from msgspec import Struct, field

from pykubelet.base.errors import Invalid
from pykubelet.base.files.decoding import decode_json
from pykubelet.criserver.spec.spec_types import Json

_T = TypeVar("_T")
_INVALID = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_SHOWN: Final = 10
MAX_DELETED: Final = 100_000
_MAX_PARTS: Final = 500_000
"""Commas of a document: about as many values are decoded before any other check is possible."""
_LONGEST_NAME: Final = 512
_LONGEST_TIME: Final = 64
_CAPABILITIES: Final = ("bounding", "effective", "permitted", "inheritable", "ambient")


class DumpedContainer(Struct, frozen=True):
    """``config.dump``: the container and its image, as checkpointctl's ``ContainerConfig``."""

    id: str = ""
    name: str = ""
    image_ref: str = field(name="rootfsImageRef", default="")
    image_name: str = field(name="rootfsImageName", default="")
    at: str = field(name="checkpointedTime", default="")

    @property
    def shown_at(self) -> str:
        """The time, for an annotation; empty if it is not printable."""
        return self.at if len(self.at) <= _LONGEST_TIME and self.at.isprintable() else ""

    @property
    def base(self) -> str:
        """The image of which the root file system was made: by digest or id, else by name."""
        return self.image_ref or self.image_name


class _Mount(Struct, frozen=True):
    destination: str = ""
    type: str = ""
    options: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        return self.destination.rstrip("/") or "/"

    @property
    def readonly(self) -> bool:
        return bool({"ro", "rro"} & set(self.options))


class _User(Struct, frozen=True):
    uid: int = 0
    gid: int = 0
    additional: tuple[int, ...] = field(name="additionalGids", default=())


class _Process(Struct, frozen=True):
    terminal: bool = False
    user: _User = _User()
    capabilities: dict[str, tuple[str, ...] | None] = {}
    no_new_privileges: bool = field(name="noNewPrivileges", default=False)
    apparmor: str = field(name="apparmorProfile", default="")
    selinux: str = field(name="selinuxLabel", default="")


class _Root(Struct, frozen=True):
    readonly: bool = False


class _Namespace(Struct, frozen=True):
    type: str
    path: str = ""


class _Seccomp(Struct, frozen=True):
    """A profile, of which only the presence matters."""


class _Linux(Struct, frozen=True):
    namespaces: tuple[_Namespace, ...] | None = None
    masked: tuple[str, ...] | None = field(name="maskedPaths", default=None)
    readonly: tuple[str, ...] | None = field(name="readonlyPaths", default=None)
    seccomp: _Seccomp | None = None


class Spec(Struct, frozen=True):
    """``spec.dump``: the parts of an OCI specification that CRIU restores."""

    process: _Process = _Process()
    root: _Root = _Root()
    mounts: tuple[_Mount, ...] | None = None
    linux: _Linux = _Linux()


class CheckpointDump(Struct, frozen=True):
    """The description of a checkpoint."""

    described: DumpedContainer
    spec: Spec


def parse(config: bytes, spec: bytes, what: str) -> CheckpointDump:
    """Parse ``config.dump`` and ``spec.dump``. Invalid, which names ``what``: they are not those of a checkpoint."""
    found = CheckpointDump(
        _decode(config, DumpedContainer, what, "config.dump"), _decode(spec, Spec, what, "spec.dump")
    )
    base = found.described.base
    if not base or len(base) > _LONGEST_NAME or not base.isprintable():
        raise Invalid(f"{what}: config.dump names no image of which the container was made (rootfsImageRef)")
    return found


def parse_spec(built: Json, what: str) -> Spec:
    """Read the parts that a restoration needs from a specification that was built for a container."""
    return _decode(msgspec.json.encode(built), Spec, what, "config.json")


def parse_descriptors(data: bytes, what: str) -> None:
    """Check runc's ``descriptors.json``: what the standard streams were. Invalid: it has others.

    runc would hand over a descriptor of its own for each further entry.
    """
    if len(_decode(data, tuple[str, ...], what, "descriptors.json")) > 3:
        raise Invalid(f"{what}: descriptors.json describes more than the three standard streams")


def parse_deleted(data: bytes, what: str) -> tuple[str, ...]:
    """Parse ``deleted.files`` of CRI-O and Podman: the paths that the dumped container had removed. Invalid."""
    paths = _decode(data, tuple[str, ...], what, "deleted.files")
    if len(paths) > MAX_DELETED:
        raise Invalid(f"{what}: deleted.files names more than {MAX_DELETED} files")
    if any(path.strip("/") == "" or "\0" in path for path in paths):
        raise Invalid(f"{what}: deleted.files names the root directory, or a path that is invalid")
    return tuple(path.strip("/") for path in paths)


def check_fits(dumped: CheckpointDump, built: Json, what: str) -> None:
    """Check that the restored processes may do no more than the specification that was built for the container says.

    Invalid, with all differences: a checkpoint of another pod.
    """
    spec = parse_spec(built, what)
    differences = [*_in_mounts(dumped.spec, spec), *_in_process(dumped.spec, spec), *_in_confinement(dumped.spec, spec)]
    if differences:
        more = f"; and {len(differences) - _SHOWN} more" if len(differences) > _SHOWN else ""
        raise Invalid(f"{what} does not fit the container: {'; '.join(differences[:_SHOWN])}{more}")


def _decode(data: bytes, kind: type[_T], what: str, file: str) -> _T:
    if data.count(b",") > _MAX_PARTS:
        raise Invalid(f"{what}: {file} has more than {_MAX_PARTS} values")
    try:
        return decode_json(data, kind)
    except _INVALID as error:
        raise Invalid(f"{what}: {file} is invalid: {error}") from error


_CGROUPS: Final = ("/sys/fs/cgroup", ("cgroup", False), ("bind", False))
"""The cgroups of a privileged container on cgroup v2: mounted by containerd and earlier versions, bound by this one."""


def _in_mounts(old: Spec, new: Spec) -> Iterable[str]:
    before, after = _mounts(old), _mounts(new)
    for path in sorted(before.keys() - after.keys()):
        yield f"it has the mount {path[:_LONGEST_NAME]!r}, which the container lacks"
    for path in sorted(after.keys() - before.keys()):
        yield f"it lacks the mount {path!r} of the container"
    for path in sorted(before.keys() & after.keys()):
        if before[path] != after[path] and (path, before[path], after[path]) != _CGROUPS:
            yield f"the mount {path!r} is {_words(before[path])} in it, and {_words(after[path])} in the container"
    if old.root.readonly != new.root.readonly:
        was, now = (_words(("", root.readonly)) for root in (old.root, new.root))
        yield f"its root file system is {was}, the container's is {now}"


def _mounts(spec: Spec) -> Mapping[str, tuple[str, bool]]:
    """Type, and whether it is read-only, by path."""
    return {mount.path: (_kind(mount), mount.readonly) for mount in spec.mounts or ()}


def _kind(mount: _Mount) -> str:
    return "bind" if {"bind", "rbind"} & set(mount.options) else mount.type


def _words(facts: tuple[str, bool]) -> str:
    kind, readonly = facts
    return f"{kind[:20]}{' ' if kind else ''}{'read-only' if readonly else 'writable'}"


def _in_process(old: Spec, new: Spec) -> Iterable[str]:
    before, after = old.process, new.process
    if before.terminal != after.terminal:
        yield f"it was dumped {'with' if before.terminal else 'without'} a terminal (tty)"
    if (before.user.uid, before.user.gid) != (after.user.uid, after.user.gid):
        yield (
            f"its user is {before.user.uid}:{before.user.gid}, the container's is {after.user.uid}:{after.user.gid} "
            "(runAsUser, runAsGroup)"
        )
    if more := set(before.user.additional) - set(after.user.additional) - {after.user.gid}:
        yield f"it has the groups {sorted(more)[:_SHOWN]}, which the container lacks (supplementalGroups)"
    for name in _CAPABILITIES:
        if gained := set(before.capabilities.get(name) or ()) - set(after.capabilities.get(name) or ()):
            listed = ", ".join(sorted(gained))
            yield f"it has the {name} capabilities {listed[:_LONGEST_NAME]!r}, which the container lacks"


def _in_confinement(old: Spec, new: Spec) -> Iterable[str]:
    if new.process.no_new_privileges and not old.process.no_new_privileges:
        yield "it may gain privileges (allowPrivilegeEscalation), the container may not"
    if new.linux.seccomp is not None and old.linux.seccomp is None:
        yield "it has no seccomp filter, the container has one"
    for name, before, after in (
        ("AppArmor profile", old.process.apparmor, new.process.apparmor),
        ("SELinux label", old.process.selinux, new.process.selinux),
    ):
        if before != after:
            yield f"its {name} is {before[:_LONGEST_NAME]!r}, the container's is {after!r}"
    if visible := set(new.linux.masked or ()) - set(old.linux.masked or ()):
        yield f"it sees paths that are masked in the container: {', '.join(sorted(visible)[:_SHOWN])}"
    if writable := set(new.linux.readonly or ()) - set(old.linux.readonly or ()):
        yield f"it may write to paths that are read-only in the container: {', '.join(sorted(writable)[:_SHOWN])}"
    was, now = _namespaces(old), _namespaces(new)
    for kind in sorted(was.keys() | now.keys()):
        if was.get(kind) != now.get(kind):
            yield f"its {kind[:20]} namespace is {_sharing(was.get(kind))}, the container's {_sharing(now.get(kind))}"


def _namespaces(spec: Spec) -> Mapping[str, bool]:
    """Whether each is one to join, by type."""
    return {each.type: bool(each.path) for each in spec.linux.namespaces or ()}


def _sharing(joined: bool | None) -> str:
    if joined is None:
        return "the node's"
    return "the pod's" if joined else "its own"
