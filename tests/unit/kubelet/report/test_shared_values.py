"""One object in place of many equal ones."""

from msgspec import Struct

from pykubelet.kubelet.report.shared_values import SharedValues


class Name(Struct, frozen=True):
    text: str


def test_equal_values_become_one_object() -> None:
    shared = SharedValues()
    first, equal, other = Name("a"), Name("a"), Name("b")
    assert shared.of(first) is shared.of(equal) is first
    assert shared.of(other) is other


def test_equal_values_of_different_types_stay_apart() -> None:
    shared = SharedValues()
    assert [type(shared.of(value)) for value in (1, 1.0, True)] == [int, float, bool]
