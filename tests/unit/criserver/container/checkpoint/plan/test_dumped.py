"""Descriptions of checkpoints, and which of them fit a container."""

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.errors import Invalid
from pykubelet.criserver.container.checkpoint.plan.dumped import (
    CheckpointDump,
    check_fits,
    parse,
    parse_deleted,
    parse_descriptors,
)

_NAMES = ("process", "root", "mounts", "linux", "user", "uid", "capabilities", "bounding", "destination", "options")
_CAPS = ["CAP_CHOWN", "CAP_KILL"]


def spec() -> dict[str, Any]:
    """A specification as the server writes it."""
    return {
        "process": {
            "terminal": False,
            "user": {"uid": 1000, "gid": 1000, "additionalGids": [7]},
            "capabilities": {"bounding": _CAPS, "effective": _CAPS, "permitted": _CAPS},
            "noNewPrivileges": True,
        },
        "root": {"path": "/a", "readonly": True},
        "mounts": [
            {"destination": "/proc", "type": "proc"},
            {"destination": "/etc/hosts", "type": "bind", "source": "/a", "options": ["rbind", "rw"]},
            {"destination": "/data/", "source": "/b", "options": ["bind", "ro"]},
        ],
        "linux": {
            "namespaces": [{"type": "mount"}, {"type": "pid"}, {"type": "network", "path": "/ns/1"}],
            "maskedPaths": ["/proc/kcore", "/proc/keys"],
            "readonlyPaths": ["/proc/sys"],
            "seccomp": {"defaultAction": "SCMP_ACT_ERRNO"},
        },
    }


def dumped(document: dict[str, Any], **described: str) -> CheckpointDump:
    config = {"rootfsImageRef": "app@sha256:1", "checkpointedTime": "2026-01-01T00:00:00Z"} | described
    return parse(json.dumps(config).encode(), json.dumps(document).encode(), "checkpoint a.tar")


def refusal(old: dict[str, Any], new: dict[str, Any]) -> str:
    with pytest.raises(Invalid) as caught:
        check_fits(dumped(old), new, "checkpoint a.tar")
    return str(caught.value)


def changed(path: str, value: object) -> dict[str, Any]:
    """A specification with one field replaced."""
    document = spec()
    *parents, last = path.split(".")
    place = document
    for name in parents:
        place = place[name]
    place[last] = value
    return document


def test_checkpoint_of_the_same_container_fits_wherever_its_mounts_are() -> None:
    new = spec()
    new["mounts"][1]["source"] = "/elsewhere"
    new["linux"]["namespaces"][2]["path"] = "/ns/2"
    check_fits(dumped(spec()), new, "it")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("process.capabilities", {"bounding": ["CAP_KILL"]}),
        ("linux.maskedPaths", ["/proc/kcore", "/proc/keys", "/proc/more"]),
        ("linux.readonlyPaths", ["/proc/sys", "/proc/irq"]),
        ("process.user", {"uid": 1000, "gid": 1000}),
        ("process.user", {"uid": 1000, "gid": 1000, "additionalGids": [1000, 7]}),
    ],
)
def test_checkpoint_that_may_do_less_fits(path: str, value: object) -> None:
    check_fits(dumped(changed(path, value)), spec(), "it")


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("process.capabilities.bounding", [*_CAPS, "CAP_SYS_ADMIN"], "bounding capabilities 'CAP_SYS_ADMIN'"),
        ("process.capabilities.ambient", ["CAP_KILL"], "ambient capabilities 'CAP_KILL'"),
        ("process.noNewPrivileges", False, "allowPrivilegeEscalation"),
        ("process.user", {"uid": 0, "gid": 1000}, "its user is 0:1000, the container's is 1000:1000"),
        ("process.user", {"uid": 1000, "gid": 1000, "additionalGids": [0]}, r"the groups [0]"),
        ("process.terminal", True, "with a terminal"),
        ("process.apparmorProfile", "loose", "its AppArmor profile is 'loose', the container's is ''"),
        ("process.selinuxLabel", "u:r:t:s0", "its SELinux label is 'u:r:t:s0'"),
        ("linux.seccomp", None, "no seccomp filter"),
        ("linux.maskedPaths", ["/proc/kcore"], "masked in the container: /proc/keys"),
        ("linux.readonlyPaths", None, "read-only in the container: /proc/sys"),
        ("root", {"readonly": False}, "its root file system is writable, the container's is read-only"),
        ("linux.namespaces", [{"type": "mount"}, {"type": "pid"}], "its network namespace is the node's"),
        (
            "linux.namespaces",
            [{"type": "mount"}, {"type": "pid", "path": "/x"}, {"type": "network", "path": "/x"}],
            "its pid namespace is the pod's, the container's its own",
        ),
    ],
)
def test_checkpoint_that_may_do_more_is_refused(path: str, value: object, words: str) -> None:
    said = refusal(changed(path, value), spec())
    assert said.startswith("checkpoint a.tar does not fit the container: ") and words in said


def test_cgroups_that_are_bound_fit_a_checkpoint_that_has_them_mounted_and_not_the_other_way_round() -> None:
    """Privileged containers of cgroup v2 had them mounted in earlier versions, and have in containerd."""
    old, new = spec(), spec()
    old["mounts"].append({"destination": "/sys/fs/cgroup", "type": "cgroup", "options": ["rw"]})
    new["mounts"].append({"destination": "/sys/fs/cgroup", "type": "bind", "options": ["rbind", "rw"]})
    check_fits(dumped(old), new, "checkpoint a.tar")
    said = refusal(new, old)
    assert "the mount '/sys/fs/cgroup' is bind writable in it, and cgroup writable in the container" in said
    old["mounts"][-1]["options"] = ["ro"]
    assert "'/sys/fs/cgroup' is cgroup read-only in it, and bind writable" in refusal(old, new)


def test_mounts_must_be_the_same() -> None:
    old, new = spec(), spec()
    old["mounts"] += [{"destination": "/old", "type": "tmpfs"}]
    new["mounts"] += [{"destination": "/new", "type": "bind", "options": ["bind"]}]
    old["mounts"][2]["options"] = ["bind", "rw"]
    said = refusal(old, new)
    assert "it has the mount '/old', which the container lacks" in said
    assert "it lacks the mount '/new' of the container" in said
    assert "the mount '/data' is bind writable in it, and bind read-only in the container" in said


def test_long_lists_of_differences_are_cut() -> None:
    old = spec()
    old["mounts"] += [{"destination": f"/{number:0>1000}", "type": "tmpfs"} for number in range(100)]
    said = refusal(old, spec())
    assert "and 90 more" in said and len(said) < 10_000


@pytest.mark.parametrize(
    ("config", "spec_dump", "words"),
    [
        (b"", b"{}", "config.dump is invalid"),
        (b"[" * 100_000, b"{}", "config.dump is invalid"),
        (b"{}", b"{}", "names no image"),
        (b'{"rootfsImageRef": "a\\u0000b"}', b"{}", "names no image"),
        (b'{"rootfsImageRef": "a"}', b'{"mounts": 1}', "spec.dump is invalid"),
        (b'{"rootfsImageRef": "a"}', b'{"process": {"user": {"uid": "root"}}}', "spec.dump is invalid"),
        (b'{"rootfsImageRef": "\xff"}', b"{}", "config.dump is invalid"),
    ],
)
def test_descriptions_that_are_invalid(config: bytes, spec_dump: bytes, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        parse(config, spec_dump, "it")


def test_base_image_is_named_by_reference_or_name() -> None:
    assert dumped({}).described.base == "app@sha256:1"
    assert dumped({}, rootfsImageRef="", rootfsImageName="app:1").described.base == "app:1"


def test_time_is_shown_only_if_it_is_printable() -> None:
    assert dumped({}).described.shown_at == "2026-01-01T00:00:00Z"
    for time in ("\x1b[2J", "2" * 65):
        assert dumped({}, checkpointedTime=time).described.shown_at == ""


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=4),
    max_leaves=12,
)


@given(_JSON)
def test_any_description_is_compared_or_refused(document: object) -> None:
    for merged in (document, spec() | document if isinstance(document, dict) else document):
        try:
            found = parse(b'{"rootfsImageRef": "a"}', json.dumps(merged).encode(), "it")
            check_fits(found, spec(), "it")
        except Invalid as error:
            assert str(error).isprintable()


def test_number_of_deleted_files_is_limited() -> None:
    assert parse_deleted(b'["/a/b"]', "it") == ("a/b",)
    with pytest.raises(Invalid, match="more than 100000 files"):
        parse_deleted(json.dumps(["a"] * 100_001).encode(), "it")


def test_descriptors_are_those_of_the_standard_streams() -> None:
    parse_descriptors(b'["/dev/null","pipe:[1]","pipe:[2]"]', "it")
    with pytest.raises(Invalid, match="more than the three standard streams"):
        parse_descriptors(b'["a","b","c","pipe:[1]"]', "it")
    with pytest.raises(Invalid, match="invalid"):
        parse_descriptors(b'[1,2,"c"]', "it")


@pytest.mark.parametrize(
    "document",
    [
        '{"linux": {"seccomp": {"syscalls": [' + "[]," * 600_000 + "[]]}}}",
        '{"mounts": [' + "{}," * 600_000 + "{}]}",
        '{"process": {"capabilities": {"bounding": [' + '"",' * 600_000 + '""]}}}',
    ],
    ids=["seccomp", "mounts", "capabilities"],
)
def test_description_of_too_many_values_is_refused_before_it_is_decoded(document: str) -> None:
    """A byte of it would become an object."""
    with pytest.raises(Invalid, match=r"a\.tar: spec\.dump has more than 500000 values"):
        parse(b'{"rootfsImageRef": "a"}', document.encode(), "a.tar")


def test_profile_of_seccomp_is_not_decoded() -> None:
    """Only its presence matters: a long list would take fifty times its space."""
    document = b'{"linux": {"seccomp": {"syscalls": [' + b"[]," * 400_000 + b"[]]}}}"
    tracemalloc.start()
    try:
        found = parse(b'{"rootfsImageRef": "a"}', document, "a.tar")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.spec.linux.seccomp is not None and peak < 1_000_000


def test_list_of_deleted_files_is_counted_before_it_is_decoded() -> None:
    with pytest.raises(Invalid, match=r"a\.tar: deleted\.files has more than 500000 values"):
        parse_deleted(b"[" + b'"",' * 600_000 + b'""]', "a.tar")
