"""The table of containers: what clients and components find in it."""

import time

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import NotFound, Permanent
from pykubelet.criserver.container.state.table import ContainerTable
from pykubelet.criserver.types import ContainerID, ContainerPhase, ContainerRecord, SandboxID
from pykubelet.pb import runtime_v1_pb2 as pb


def _record(identity: str, phase: ContainerPhase = ContainerPhase.CREATED, at: int = 1) -> ContainerRecord:
    return ContainerRecord(
        id=ContainerID(identity),
        name=f"name-{identity}",
        sandbox_id=SandboxID("s1"),
        config=b"",
        created_at=at,
        image_id="",
        image_ref="",
        log_path="",
        cgroup="",
        stop_signal="SIGTERM",
        phase=phase,
    )


@pytest.fixture
def table() -> ContainerTable:
    return ContainerTable(monotonic=time.monotonic)


def test_container_is_found_by_its_id_and_by_a_unique_prefix(table: ContainerTable) -> None:
    first, second = table.add(_record("abc1")), table.add(_record("abd2"))
    assert table.get("abc1") is table.get("abc") is first
    assert table.find("abd") is second
    assert table.find("ab") is None, "it is ambiguous"
    assert table.find("") is None
    with pytest.raises(NotFound, match="'x' does not exist"):
        table.get("x")


def test_id_that_is_a_prefix_of_another_is_found_exactly(table: ContainerTable) -> None:
    short, _ = table.add(_record("ab")), table.add(_record("abc"))
    assert table.get("ab") is short


def test_only_a_running_container_is_running(table: ContainerTable) -> None:
    running = table.add(_record("r", ContainerPhase.RUNNING))
    table.add(_record("e", ContainerPhase.EXITED))
    assert table.running("r") is running
    with pytest.raises(Permanent, match="container e is exited, not running"):
        table.running("e")
    with pytest.raises(NotFound):
        table.running("x")


def test_unfinished_creation_is_not_found_but_belongs_to_its_sandbox(table: ContainerTable) -> None:
    making = table.add(_record("c1", ContainerPhase.MAKING))
    assert table.find("c1") is None
    assert list(table.visible()) == []
    assert list(table) == table.of_sandbox(SandboxID("s1")) == [making]
    assert table.of_sandbox(SandboxID("s2")) == []


def test_containers_of_a_sandbox_are_listed_oldest_first(table: ContainerTable) -> None:
    late, early = table.add(_record("a", at=2)), table.add(_record("b", at=1))
    assert table.of_sandbox(SandboxID("s1")) == [early, late]


def test_object_that_was_replaced_or_dropped_is_not_in_the_table(table: ContainerTable) -> None:
    old = table.add(_record("c1"))
    new = table.add(replace(old.record, phase=ContainerPhase.EXITED))
    assert old not in table
    assert new in table
    table.drop(new)
    table.drop(new)
    assert new not in table
    assert list(table) == []


def test_root_file_systems_include_those_of_mounted_images(table: ContainerTable) -> None:
    config = pb.ContainerConfig(mounts=[pb.Mount(), pb.Mount(image=pb.ImageSpec(image="data:1"))])
    table.add(replace(_record("c1"), config=config.SerializeToString()))
    assert table.rootfs_names() == ["c1", "c1-image-1"]
