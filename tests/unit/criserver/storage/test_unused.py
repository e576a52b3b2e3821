"""Root file systems that a starting server removes."""

from pykubelet.criserver.storage.plan.unused import unused_root_filesystems
from pykubelet.criserver.types import ProtectedIds

NAMES = ("c1", "c2", "c2-volume0", "c3")


def test_root_file_systems_without_a_container_are_removed_with_the_mounts_of_its_images() -> None:
    assert unused_root_filesystems(NAMES, {"c1"}, ProtectedIds()) == ["c2", "c2-volume0", "c3"]


def test_those_of_a_protected_id_stay_with_the_mounts_of_its_images() -> None:
    assert unused_root_filesystems(NAMES, {"c1"}, ProtectedIds(frozenset({"c2"}))) == ["c3"]


def test_nothing_is_removed_while_records_are_incomplete() -> None:
    assert unused_root_filesystems(NAMES, (), ProtectedIds(everything=True)) == []
