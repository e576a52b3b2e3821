"""Whether the processes in CRIU's images may do more than the specification of a container says. Pure.

CRIU does what its images say, whatever the description beside them claims. The checks are a second line: they do not
make images of an unknown author safe, since CRIU has not been written for hostile ones.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from pykubelet.base.errors import Invalid
from pykubelet.criserver.container.checkpoint.plan.criu_images import (
    Budget,
    MountEntry,
    ThreadCredentials,
    credentials,
    inherited,
    joined,
    kind_of,
    mounts,
)
from pykubelet.criserver.container.checkpoint.plan.dumped import Spec, parse_spec
from pykubelet.criserver.spec.security.capabilities import ALL, names_of
from pykubelet.criserver.spec.spec_types import Json

_KINDS: Final = ("pid", "network", "ipc", "uts", "mount")
_VIRTUAL: Final = frozenset((1, 2, 5, 6, 12, 14, 23))
"""CRIU's numbers of proc, sysfs, tmpfs, devpts, cgroup, mqueue and cgroup2."""
_FILTER: Final = 2
_SHOWN: Final = 5
_ADMIN: Final = "CAP_SYS_ADMIN"
_CONSOLE: Final = "/dev/console"
_CGROUPS: Final = "/sys/fs/cgroup/"


def check_images(names: Collection[str], read: Callable[[str], bytes], built: Json, what: str) -> None:
    """Check CRIU's images, of which ``names`` are the files and ``read`` returns the content of one at a time.

    Invalid, with what they would allow, or if they are damaged; the errors of ``read``.
    """
    by_kind: dict[str, list[str]] = {}
    for name in sorted(names):
        by_kind.setdefault(kind_of(name), []).append(name)
    if not all(by_kind.get(kind) for kind in ("inventory", "core", "ids", "mountpoints")):
        raise Invalid(f"{what} lacks images of CRIU: inventory, core, ids or mountpoints")
    found = _beyond_all(by_kind, read, parse_spec(built, what), what)
    shown = list(islice(found, _SHOWN))
    if shown:
        # A hostile image has a million of them: they are counted, not kept.
        others = sum(1 for _ in found)
        more = f"; and {others} more" if others else ""
        raise Invalid(f"{what}: its processes may do more than the container: {'; '.join(shown)}{more}")


def _beyond_all(by_kind: Mapping[str, list[str]], read: Callable[[str], bytes], spec: Spec, what: str) -> Iterator[str]:
    budget = Budget()
    node = inherited(read("inventory.img"), f"{what}: inventory.img", budget)
    for name in by_kind["core"]:
        given = credentials(read(name), f"{what}: {name}", budget)
        yield from (f"{name} has {each}" for each in (_beyond(given, spec) if given else ()))
    for name in by_kind["ids"]:
        ids = joined(read(name), f"{what}: {name}", budget)
        yield from (f"{name} is in {each}" for each in _outside(ids, node, spec))
    for name in by_kind["mountpoints"]:
        mounted = mounts(read(name), f"{what}: {name}", budget)
        yield from (f"{name} has {each}" for each in _mounted(mounted, spec))


def _beyond(given: ThreadCredentials, spec: Spec) -> Iterable[str]:
    process = spec.process
    granted = {name: set(names or ()) for name, names in process.capabilities.items()}
    for name, mask in given.capabilities.items():
        gained = names_of(mask) - granted.get(name, set())
        if gained or mask >> len(ALL):
            yield f"the {name} capabilities {', '.join(sorted(gained)) or hex(mask)}"
    if process.no_new_privileges and not given.no_new_privileges:
        yield "no no_new_privs"
    if spec.linux.seccomp is not None and given.seccomp != _FILTER:
        yield "no seccomp filter"
    others = given.uids - {process.user.uid}
    fixed = process.no_new_privileges and "CAP_SETUID" not in granted.get("bounding", set())
    if fixed and others:
        yield f"the user {min(others)} instead of {process.user.uid}"


def _outside(ids: Mapping[str, int], node: Mapping[str, int], spec: Spec) -> Iterable[str]:
    own = {namespace.type for namespace in spec.linux.namespaces or ()}
    for kind in _KINDS:
        of_node = ids[kind] == node[kind] or not ids[kind]
        if of_node and kind in own:
            yield f"the node's {kind} namespace"
        if not of_node and kind not in own:
            yield f"a {kind} namespace of its own"
    if ids["user"] != node["user"]:
        yield "a user namespace"


def _mounted(found: Collection[MountEntry], spec: Spec) -> Iterable[str]:
    # With cgroup v1 the OCI runtime mounts a writable tmpfs there, with read-only cgroups in it.
    mounted = {mount.path for mount in spec.mounts or () if mount.readonly and mount.type != "cgroup"}
    readonly = mounted | set(spec.linux.readonly or ())
    readonly |= {"/"} if spec.root.readonly else set()
    for entry in found:
        if not entry.readonly and {entry.key, entry.mountpoint} & readonly:
            yield f"the mount {entry.mountpoint[:200]!r}, which is not read-only"
    if _ADMIN in (spec.process.capabilities.get("bounding") or ()):
        return  # such a container can mount what it likes
    known = {mount.path for mount in spec.mounts or ()} | set(spec.linux.masked or ()) | set(spec.linux.readonly or ())
    for entry in found:
        path = entry.mountpoint
        if path not in known | {"/", _CONSOLE} and not path.startswith(_CGROUPS):
            yield f"the mount {path[:200]!r}, which the container lacks"
        elif not entry.external and path != "/" and entry.type not in _VIRTUAL:
            yield f"the mount {path[:200]!r} of a file system that is not one of the container's (type {entry.type})"
