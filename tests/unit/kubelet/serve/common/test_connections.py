"""Limits of connections, and which ones are closed to keep them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.kubelet.serve.common.connections import CloseReason, ConnectionRecord, Connections, source_of
from pykubelet.kubelet.serve.common.limits import ConnectionLimits


class Rig:
    """Connections by name, and the reasons for which they were closed."""

    def __init__(self, total: int = 6, untrusted: int = 4, per_source: int = 3) -> None:
        self.reasons: list[CloseReason] = []
        self.closed: list[str] = []
        self.connections = Connections(ConnectionLimits(total, untrusted, per_source), self.reasons.append)

    def come(
        self, name: str, source: str = "10.0.0.1", *, trusted: bool = False, busy: bool = False
    ) -> ConnectionRecord:
        record = ConnectionRecord(source, lambda: self.closed.append(name))
        if self.connections.admit(record):
            record.trusted = trusted
            if busy:
                self.connections.begin(record)
            elif trusted:
                self.connections.begin(record)
                self.connections.end(record)
        else:
            self.closed.append(f"{name} refused")
        return record


def test_connection_beyond_the_source_limit_closes_the_oldest_of_that_source() -> None:
    rig = Rig()
    for name in ("a", "b", "c", "d"):
        rig.come(name)
    assert (rig.closed, rig.reasons) == (["a"], [CloseReason.EVICTED])


def test_connection_beyond_the_untrusted_limit_closes_the_oldest_of_the_busiest_source() -> None:
    rig = Rig()
    rig.come("admin", "10.0.0.9")
    for name in ("a", "b", "c"):
        rig.come(name)
    rig.come("admin-2", "10.0.0.9")
    assert rig.closed == ["a"]


def test_busy_untrusted_connection_is_closed_after_the_idle_ones() -> None:
    rig = Rig()
    rig.come("a", busy=True)
    for name in ("b", "c", "d"):
        rig.come(name)
    assert rig.closed == ["b"]


def test_untrusted_connections_below_the_total_limit_evict_no_trusted_one() -> None:
    rig = Rig()
    for name in ("x", "y"):
        rig.come(name, trusted=True)
    for number in range(20):
        rig.come(f"s{number}", source=f"10.0.1.{number}")
    assert rig.closed == [f"s{number}" for number in range(16)]


def test_full_server_closes_the_longest_idle_trusted_connection() -> None:
    rig = Rig()
    first = rig.come("first", trusted=True)
    rig.come("busy", trusted=True, busy=True)
    for name in ("c", "d", "e", "f"):
        rig.come(name, trusted=True)
    rig.connections.begin(first)
    rig.connections.end(first)
    rig.come("new")
    assert rig.closed == ["c"]
    assert len(rig.connections) == 6


def test_full_server_without_an_idle_connection_rejects() -> None:
    rig = Rig()
    for number in range(6):
        rig.come(f"{number}", trusted=True, busy=True)
    rig.come("new")
    assert (rig.closed, rig.reasons) == (["new refused"], [CloseReason.REFUSED])


def test_ended_connection_frees_its_place() -> None:
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
        st.tuples(
            st.sampled_from(["come", "mark_trusted", "begin", "end", "forget"]), st.integers(0, 30), st.integers(0, 3)
        ),
        max_size=200,
    )
)
def test_limits_hold_and_busy_trusted_connections_are_never_closed(steps: list[tuple[str, int, int]]) -> None:
    limits = ConnectionLimits(8, 4, 3)
    connections = Connections(limits, lambda _: None)
    records: list[ConnectionRecord] = []
    closed: set[int] = set()
    for what, index, source in steps:
        if what == "come":
            number = len(records)
            records.append(ConnectionRecord(f"10.0.0.{source}", lambda number=number: closed.add(number)))  # type: ignore[misc]
            if not connections.admit(records[-1]):
                closed.add(number)
                assert len(connections) == limits.total
        elif records:
            chosen = index % len(records)
            if chosen in closed:
                continue
            match what:
                case "mark_trusted":
                    records[chosen].trusted = True
                case "begin":
                    connections.begin(records[chosen])
                case "end":
                    connections.end(records[chosen])
                case _:
                    connections.forget(records[chosen])
                    closed.add(chosen)
        protected = {n for n, each in enumerate(records) if each.trusted and each.busy and n not in closed}
        before = set(closed)
        assert len(connections) <= limits.total
        untrusted = [each for n, each in enumerate(records) if n not in closed and not each.trusted]
        assert len(untrusted) <= limits.untrusted
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
def test_source_ignores_address_bits_that_a_client_can_choose(peer: object, source: str) -> None:
    assert source_of(peer) == source
