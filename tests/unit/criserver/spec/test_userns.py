"""User namespaces of pods."""

from collections.abc import Mapping
from typing import cast

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Invalid
from pykubelet.criserver.spec import build_container, build_infra, node_program
from pykubelet.criserver.spec.userns import check_container, check_mount, id_map
from pykubelet.criserver.types import IdMap, UserNamespace
from pykubelet.pb import runtime_v1_pb2 as pb
from tests.unit.criserver.spec.given import given

IDS = IdMap(100000, 200000, 65536, 1000)


def _options(mode: "pb.NamespaceMode.ValueType" = pb.POD) -> pb.NamespaceOption:
    user = pb.UserNamespace(
        mode=mode,
        uids=[pb.IDMapping(host_id=100000, length=65536)],
        gids=[pb.IDMapping(host_id=200000, length=1000)],
    )
    return pb.NamespaceOption(userns_options=user)


def test_id_map_is_set_for_pods_with_a_user_namespace_only() -> None:
    assert id_map(_options()) == IDS
    assert id_map(_options(pb.NODE)) is None
    assert id_map(pb.NamespaceOption()) is None


@pytest.mark.parametrize("kind", ["pid", "ipc"])
def test_node_namespaces_with_a_user_namespace_are_rejected(kind: str) -> None:
    options = _options()
    setattr(options, kind, pb.NODE)
    with pytest.raises(Invalid, match="cannot use the node's"):
        id_map(options)


@pytest.mark.parametrize("mode", [pb.CONTAINER, pb.TARGET])
def test_unsupported_modes_are_rejected(mode: "pb.NamespaceMode.ValueType") -> None:
    with pytest.raises(Invalid, match="the pod's or the node's"):
        id_map(_options(mode))


@pytest.mark.parametrize(
    ("mappings", "words"),
    [
        ([], "exactly one"),
        ([pb.IDMapping(host_id=1, length=1), pb.IDMapping(host_id=2, container_id=1, length=1)], "exactly one"),
        ([pb.IDMapping(host_id=1, container_id=1, length=5)], "begin at 0"),
        ([pb.IDMapping(host_id=1)], "not a valid range"),
        ([pb.IDMapping(host_id=2**32 - 10, length=100)], "not a valid range"),
    ],
)
def test_unsupported_mappings_are_rejected(mappings: list[pb.IDMapping], words: str) -> None:
    options = _options()
    del options.userns_options.gids[:]
    options.userns_options.gids.extend(mappings)
    with pytest.raises(Invalid, match=words):
        id_map(options)


def test_a_container_shares_its_pod_s_namespace() -> None:
    check_container(_options(), IDS)
    check_container(pb.NamespaceOption(), IDS)
    check_container(_options(pb.NODE), None)
    for options, of_pod in ((_options(), None), (_options(pb.NODE), IDS), (_options(), replace(IDS, uid=5))):
        with pytest.raises(Invalid, match="user namespace other than"):
            check_container(options, of_pod)


def test_mounts_with_mapped_ids() -> None:
    mapped = pb.Mount(
        container_path="/d",
        uidMappings=[pb.IDMapping(host_id=100000, length=65536)],
        gidMappings=[pb.IDMapping(host_id=200000, length=1000)],
    )
    assert check_mount(mapped, IDS)
    assert not check_mount(pb.Mount(container_path="/d"), IDS)
    with pytest.raises(Invalid, match="has no user namespace"):
        check_mount(mapped, None)
    with pytest.raises(Invalid, match="only the ids"):
        check_mount(mapped, replace(IDS, gids=5))
    del mapped.gidMappings[:]
    with pytest.raises(Invalid, match="exactly one"):
        check_mount(mapped, IDS)


def test_spec_of_a_container_has_the_id_mappings_of_its_pod() -> None:
    made = given()
    namespaces = {**made.sandbox.namespaces, "user": "/ns/user"}
    view = replace(made.sandbox, user=UserNamespace("/ns/user", IDS), namespaces=namespaces)
    linux = cast(Mapping[str, object], build_container(replace(made, sandbox=view))["linux"])
    assert linux["uidMappings"] == [{"containerID": 0, "hostID": 100000, "size": 65536}]
    assert linux["gidMappings"] == [{"containerID": 0, "hostID": 200000, "size": 1000}]
    assert {"type": "user", "path": "/ns/user"} in cast(list[dict[str, str]], linux["namespaces"])
    assert "uidMappings" not in cast(Mapping[str, object], build_container(made)["linux"])


def test_node_network_with_a_user_namespace_shows_the_node_s_sysfs_read_only() -> None:
    """The kernel lets only the owner of the network namespace mount sysfs."""
    assert id_map(pb.NamespaceOption(network=pb.NODE, userns_options=_options().userns_options)) == IDS
    made = given()
    own = {**made.sandbox.namespaces, "user": "/ns/user"}
    node = {kind: path for kind, path in own.items() if kind not in ("network", "uts")}
    for namespaces, user, expected in (
        (node, UserNamespace("/ns/user", IDS), ("bind", "rro")),
        (own, UserNamespace("/ns/user", IDS), ("sysfs", "ro")),
        (node, None, ("sysfs", "ro")),
    ):
        view = replace(made.sandbox, user=user, namespaces=namespaces)
        mounts = cast(list[dict[str, object]], build_container(replace(made, sandbox=view))["mounts"])
        (found,) = [mount for mount in mounts if mount["destination"] == "/sys"]
        assert found["type"] == expected[0] and expected[1] in cast(list[str], found["options"])


def test_the_infra_process_runs_as_a_mapped_user() -> None:
    spec = build_infra(
        program=node_program("/i"), rootfs="/r", cgroup="/c", namespaces={"user": "/ns/user"}, oom_score=0, ids=IDS
    )
    process, linux = cast(Mapping[str, object], spec["process"]), cast(Mapping[str, object], spec["linux"])
    assert process["user"] == {"uid": 999, "gid": 999}
    assert linux["uidMappings"] == [{"containerID": 0, "hostID": 100000, "size": 65536}]
