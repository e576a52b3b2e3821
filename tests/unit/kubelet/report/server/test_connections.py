"""Which connections are closed for others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.kubelet.report.server.connections import Closed, Connections, Held, source_of
from pykubelet.kubelet.report.server.limits import ConnectionLimits


class Rig:
    """Connections by name, and what became of them."""

    def __init__(self, total: int = 6, strangers: int = 4, per_source: int = 3) -> None:
        self.reasons: list[Closed] = []
        self.closed: list[str] = []
        self.connections = Connections(ConnectionLimits(total, strangers, per_source), self.reasons.append)

    def come(self, name: str, source: str = "10.0.0.1", *, proven: bool = False, busy: bool = False) -> Held:
        held = Held(source, lambda: self.closed.append(name))
        if self.connections.admit(held):
            held.proven = proven
            if busy:
                self.connections.begin(held)
            elif proven:
                self.connections.begin(held)
                self.connections.end(held)
        else:
            self.closed.append(f"{name} refused")
        return held


def test_one_more_from_a_source_with_too_many_closes_its_oldest() -> None:
    rig = Rig()
    for name in ("a", "b", "c", "d"):
        rig.come(name)
    assert (rig.closed, rig.reasons) == (["a"], [Closed.EVICTED])


def test_one_more_stranger_closes_the_oldest_of_the_source_with_most() -> None:
    rig = Rig()
    rig.come("admin", "10.0.0.9")
    for name in ("a", "b", "c"):
        rig.come(name)
    rig.come("admin-2", "10.0.0.9")
    assert rig.closed == ["a"]


def test_stranger_that_is_being_served_is_closed_after_the_idle_ones() -> None:
    rig = Rig()
    rig.come("a", busy=True)
    for name in ("b", "c", "d"):
        rig.come(name)
    assert rig.closed == ["b"]


def test_strangers_never_close_a_proven_connection_while_there_is_room() -> None:
    rig = Rig()
    for name in ("x", "y"):
        rig.come(name, proven=True)
    for number in range(20):
        rig.come(f"s{number}", source=f"10.0.1.{number}")
    assert rig.closed == [f"s{number}" for number in range(16)]


def test_full_server_closes_the_proven_connection_that_was_idle_longest() -> None:
    rig = Rig()
    first = rig.come("first", proven=True)
    rig.come("busy", proven=True, busy=True)
    for name in ("c", "d", "e", "f"):
        rig.come(name, proven=True)
    rig.connections.begin(first)
    rig.connections.end(first)
    rig.come("new")
    assert rig.closed == ["c"]
    assert len(rig.connections) == 6


def test_full_server_without_an_idle_connection_refuses() -> None:
    rig = Rig()
    for number in range(6):
        rig.come(f"{number}", proven=True, busy=True)
    rig.come("new")
    assert (rig.closed, rig.reasons) == (["new refused"], [Closed.REFUSED])


def test_connection_that_ended_by_itself_makes_room() -> None:
    rig = Rig()
    ended = rig.come("a")
    for name in ("b", "c"):
        rig.come(name)
    rig.connections.forget(ended)
    rig.connections.forget(ended)
    rig.come("d")
    assert not rig.closed


@given(
    st.lists(
        st.tuples(st.sampled_from(["come", "prove", "begin", "end", "forget"]), st.integers(0, 30), st.integers(0, 3)),
        max_size=200,
    )
)
def test_limits_hold_and_proven_busy_connections_are_never_closed(steps: list[tuple[str, int, int]]) -> None:
    limits = ConnectionLimits(8, 4, 3)
    connections = Connections(limits, lambda _: None)
    held: list[Held] = []
    closed: set[int] = set()
    for what, index, source in steps:
        if what == "come":
            number = len(held)
            held.append(Held(f"10.0.0.{source}", lambda number=number: closed.add(number)))  # type: ignore[misc]
            if not connections.admit(held[-1]):
                closed.add(number)
                assert len(connections) == limits.total
        elif held:
            chosen = index % len(held)
            if chosen in closed:
                continue
            match what:
                case "prove":
                    held[chosen].proven = True
                case "begin":
                    connections.begin(held[chosen])
                case "end":
                    connections.end(held[chosen])
                case _:
                    connections.forget(held[chosen])
                    closed.add(chosen)
        protected = {n for n, each in enumerate(held) if each.proven and each.busy and n not in closed}
        before = set(closed)
        assert len(connections) <= limits.total
        strangers = [each for n, each in enumerate(held) if n not in closed and not each.proven]
        assert len(strangers) <= limits.strangers
        assert not protected & (closed - before)


@pytest.mark.parametrize(
    ("peer", "source"),
    [
        (("10.0.0.1", 4711), "10.0.0.1"),
        (("::ffff:10.0.0.1", 4711, 0, 0), "10.0.0.1"),
        (("2001:db8:1:2:3:4:5:6", 4711, 0, 0), "2001:db8:1:2::/64"),
        (("fe80::1%eth0", 4711, 0, 2), "fe80::/64"),
        ("", "local"),
        (b"", "local"),
        (None, "local"),
        (("nonsense", 1), "local"),
    ],
)
def test_source_is_what_one_client_cannot_choose(peer: object, source: str) -> None:
    assert source_of(peer) == source
