"""The table of sandboxes: what clients and components find in it."""

import time

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import NotFound
from pykubelet.criserver.sandbox import SandboxTable
from pykubelet.criserver.types import SandboxID, SandboxPhase, SandboxRecord


def _record(identity: str, phase: SandboxPhase = SandboxPhase.READY) -> SandboxRecord:
    return SandboxRecord(SandboxID(identity), f"name-{identity}", "runc", b"", 1, phase)


@pytest.fixture
def table() -> SandboxTable:
    return SandboxTable(monotonic=time.monotonic)


def test_sandbox_is_found_by_its_id_and_by_a_unique_prefix(table: SandboxTable) -> None:
    first, second = table.add(_record("abc1")), table.add(_record("abd2"))
    assert table.get("abc1") is table.get("abc") is first
    assert table.find("abd") is second
    assert table.find("ab") is None, "it is ambiguous"
    assert table.find("") is None
    with pytest.raises(NotFound, match="'x' does not exist"):
        table.get("x")


def test_id_that_is_a_prefix_of_another_is_found_exactly(table: SandboxTable) -> None:
    short, _ = table.add(_record("ab")), table.add(_record("abc"))
    assert table.get("ab") is short


def test_unfinished_creation_is_not_found_but_holds_its_id_and_name(table: SandboxTable) -> None:
    making = table.add(_record("abc1", SandboxPhase.MAKING))
    assert table.find("abc1") is None
    assert list(table.visible()) == []
    assert list(table) == [making]
    assert table.lookup(SandboxID("abc1")) is making
    assert making.id in table
    assert table.holder("name-abc1") is making
    assert table.holder("name-other") is None


async def test_sandbox_being_removed_is_invisible_until_the_removal_has_failed(table: SandboxTable) -> None:
    removing = table.add(_record("abc1", SandboxPhase.REMOVING))
    async with removing.lock:
        assert list(table.visible()) == []
        assert not removing.leftover
    assert list(table.visible()) == [removing]
    assert removing.leftover


def test_table_may_change_while_it_is_iterated(table: SandboxTable) -> None:
    for number in range(3):
        table.add(_record(f"s{number}"))
    for each in table:
        table.drop(each.id)
        table.drop(each.id)
    assert list(table) == []
    assert table.lookup(SandboxID("s1")) is None


def test_record_of_an_id_that_is_added_again_replaces_the_object(table: SandboxTable) -> None:
    first = table.add(_record("abc1"))
    second = table.add(replace(first.record, phase=SandboxPhase.STOPPED))
    assert table.get("abc1") is second
