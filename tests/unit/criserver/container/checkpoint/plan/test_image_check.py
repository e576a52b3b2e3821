"""Processes in CRIU's images that may do more than the container."""

from typing import Any

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.criserver.container.checkpoint.plan.image_check import check_images
from pykubelet.testing.criu import NODE_IDS, POD_IDS, core, image, images_of, message, mount

_SYS_ADMIN = 1 << 21


def spec(**process: Any) -> dict[str, Any]:
    kinds = ("mount", "pid", "network", "ipc", "uts")
    return {
        "process": {"user": {"uid": 0}, "noNewPrivileges": True, "capabilities": {"bounding": ["CAP_KILL"]}, **process},
        "root": {"readonly": True},
        "mounts": [
            {"destination": "/ro/", "options": ["bind", "ro"]},
            {"destination": "/rw", "options": ["bind"]},
            {"destination": "/sys/fs/cgroup", "type": "cgroup", "options": ["ro"]},
        ],
        "linux": {
            "namespaces": [{"type": kind} for kind in kinds],
            "seccomp": {"defaultAction": "SCMP_ACT_ERRNO"},
            "maskedPaths": ["/proc/kcore"],
            "readonlyPaths": ["/proc/sys"],
        },
    }


def _check(images: dict[str, bytes], built: dict[str, Any]) -> None:
    check_images(images, images.__getitem__, built, "it")


def refusal(built: dict[str, Any], **images: bytes) -> str:
    with pytest.raises(Invalid) as caught:
        _check(images_of(**images), built)
    return str(caught.value)


def _ids(**changed: int) -> bytes:
    return image("ids", message((1, 1), *(POD_IDS | {int(key[1:]): value for key, value in changed.items()}).items()))


def _mounts(*entries: bytes) -> bytes:
    return image("mountpoints", mount("/"), *entries)


def test_images_are_read_one_at_a_time_and_their_values_are_counted() -> None:
    """A byte of an image can be a value that takes fifty times its space when decoded."""
    full = image("core", b"\x08\x01" * 1_000_001)
    images = images_of() | {"core-2.img": image("core", message((1, 1), (5, full[12:]))), "core-3.img": full}
    kept: list[str] = []

    def read(name: str) -> bytes:
        kept.append(name)
        return images[name]

    with pytest.raises(Invalid, match=r"it: core-2\.img: the images of the checkpoint have more than 1000000 values"):
        check_images(images, read, spec(), "it")
    assert kept == ["inventory.img", "core-1.img", "core-2.img"]


def test_differences_of_hostile_images_are_counted_and_not_kept() -> None:
    many = image("mountpoints", *[mount(f"/{number}") for number in range(20_000)])
    said = refusal(spec(), mountpoints=many)
    assert said.endswith("; and 19995 more") and len(said) < 1000


def test_process_that_may_do_no_more_is_accepted() -> None:
    usual = (
        mount("/ro", key="/ro"),
        mount("/rw", flags=0, key="/rw", kind=0),
        mount("/proc/sys", kind=1),
        mount("/proc/kcore", flags=0, kind=5, key="/dev/null"),
        mount("/sys/fs/cgroup", kind=5, flags=0),
        mount("/sys/fs/cgroup/memory", kind=12, key="/sys/fs/cgroup/memory"),
    )
    _check(images_of(core=core(creds=[(12, 1 << 5)]), mountpoints=_mounts(*usual)), spec())


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (core(creds=[(10, _SYS_ADMIN)]), "the permitted capabilities CAP_SYS_ADMIN"),
        (core(creds=[(19, 0), (19, 1 << 31)]), "the ambient capabilities 0x8000000000000000"),
        (core(no_new_privs=0), "no no_new_privs"),
        (core(seccomp=0), "no seccomp filter"),
        (core(uid=1000), "the user 1000 instead of 0"),
    ],
)
def test_credentials_beyond_those_of_the_container_are_refused(made: bytes, words: str) -> None:
    said = refusal(spec(), core=made)
    assert said.startswith("it: its processes may do more than the container: core-1.img has ") and words in said


def test_threads_are_checked_one_by_one() -> None:
    images = images_of() | {"core-77.img": core(seccomp=0)}
    with pytest.raises(Invalid, match=r"core-77\.img has no seccomp filter"):
        _check(images, spec())


def test_user_may_differ_where_the_container_may_change_it() -> None:
    granted = {"bounding": ["CAP_SETUID"]}
    _check(images_of(core=core(uid=33)), spec(capabilities=granted))


@pytest.mark.parametrize(("field", "kind"), [(5, "pid"), (6, "network"), (7, "ipc"), (8, "uts"), (9, "mount")])
def test_namespaces_of_the_node_are_refused(field: int, kind: str) -> None:
    assert f"the node's {kind} namespace" in refusal(spec(), ids=_ids(**{f"_{field}": NODE_IDS[field]}))
    assert f"the node's {kind} namespace" in refusal(spec(), ids=_ids(**{f"_{field}": 0}))


def test_namespaces_are_those_of_the_specification() -> None:
    built = spec()
    built["linux"]["namespaces"] = [{"type": "mount"}, {"type": "pid"}, {"type": "ipc"}, {"type": "uts"}]
    assert "a network namespace of its own" in refusal(built)
    _check(images_of(ids=_ids(_6=NODE_IDS[6])), built)
    assert "a user namespace" in refusal(spec(), ids=_ids(_10=99))


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (mount("/ro", flags=0, key="/ro"), "the mount '/ro', which is not read-only"),
        (mount("/rw", flags=0, key="/ro"), "the mount '/rw', which is not read-only"),
        (mount("/proc/sys", flags=0, kind=1), "the mount '/proc/sys', which is not read-only"),
        (mount("/", flags=0), "the mount '/', which is not read-only"),
        (mount("/host", kind=1), "the mount '/host', which the container lacks"),
        (mount("/rw", kind=16), "of a file system that is not one of the container's (type 16)"),
    ],
)
def test_mounts_beyond_those_of_the_container_are_refused(entry: bytes, words: str) -> None:
    assert words in refusal(spec(), mountpoints=_mounts(entry))


def test_container_that_may_mount_may_have_mounted() -> None:
    granted = {"bounding": ["CAP_SYS_ADMIN"]}
    images = images_of(mountpoints=_mounts(mount("/host", kind=1)))
    _check(images, spec(capabilities=granted))


def test_images_that_are_missing_are_refused() -> None:
    for name in images_of():
        if name != "pstree.img":
            images = images_of()
            del images[name]
            with pytest.raises(Invalid, match="lacks images of CRIU"):
                _check(images, spec())
