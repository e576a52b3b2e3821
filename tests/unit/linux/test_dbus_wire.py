"""D-Bus messages: against bytes worked out from the specification, and round trips."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.errors import Invalid
from pykubelet.linux import dbus_wire as wire
from pykubelet.linux.dbus_wire import Kind, Message, Value, Variant

HELLO = bytes.fromhex(
    "6c01000100000000010000006d000000"  # little endian, call, no flags, version 1, body 0, serial 1, fields 0x6d
    "01016f00150000002f6f72672f667265656465736b746f702f44427573000000"  # path /org/freedesktop/DBus
    "02017300140000006f72672e667265656465736b746f702e4442757300000000"  # interface org.freedesktop.DBus
    "03017300050000004865" + "6c6c6f000000"  # member Hello
    "06017300140000006f72672e667265656465736b746f702e4442757300000000"  # destination
)


def test_a_message_of_the_specification() -> None:
    message = Message(
        Kind.CALL,
        1,
        path="/org/freedesktop/DBus",
        interface="org.freedesktop.DBus",
        member="Hello",
        destination="org.freedesktop.DBus",
    )
    assert wire.encode(message) == HELLO
    assert wire.decode(HELLO) == message
    assert wire.length(HELLO[: wire.PREFIX_SIZE]) == len(HELLO)


def test_split() -> None:
    assert list(wire.split("ssa(sv)a(sa(sv))")) == ["s", "s", "a(sv)", "a(sa(sv))"]
    assert list(wire.split("")) == []
    for bad in ("a", "(s", "a("):
        with pytest.raises(Invalid):
            list(wire.split(bad))


_NUMBERS = {"y": 8, "q": 16, "u": 32, "t": 64}
_LEAVES = st.one_of(
    *(st.tuples(st.just(code), st.integers(0, (1 << bits) - 1)) for code, bits in _NUMBERS.items()),
    st.tuples(st.just("b"), st.booleans()),
    st.tuples(st.just("s"), st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))),
)


def _wrap(inner: st.SearchStrategy[tuple[str, Value]]) -> st.SearchStrategy[tuple[str, Value]]:
    structs = st.lists(inner, min_size=1, max_size=4).map(
        lambda parts: (f"({''.join(code for code, _ in parts)})", tuple(value for _, value in parts))
    )
    variants = inner.map(lambda part: ("v", Variant(*part)))
    arrays = st.tuples(inner, st.integers(0, 3)).map(lambda part: (f"a{part[0][0]}", [part[0][1]] * part[1]))
    return st.one_of(structs, variants, arrays)


_VALUES: st.SearchStrategy[tuple[str, Value]] = st.recursive(_LEAVES, _wrap, max_leaves=8)


@given(st.lists(_VALUES, max_size=4), st.integers(1, 0xFFFFFFFF))
def test_round_trip(parts: list[tuple[str, Value]], serial: int) -> None:
    signature = "".join(code for code, _ in parts)
    message = Message(Kind.RETURN, serial, reply_to=7, signature=signature, body=tuple(value for _, value in parts))
    if len(signature) > 255:
        return
    data = wire.encode(message)
    assert wire.decode(data) == message
    assert wire.length(data[: wire.PREFIX_SIZE]) == len(data)


@pytest.mark.parametrize(
    ("signature", "value"), [("s", 1), ("u", -1), ("y", 256), ("b", 1), ("as", "x"), ("v", "x"), ("d", 1)]
)
def test_values_that_do_not_fit(signature: str, value: Value) -> None:
    with pytest.raises(Invalid):
        wire.encode(Message(Kind.CALL, 1, signature=signature, body=(value,)))


@given(st.binary(min_size=wire.PREFIX_SIZE, max_size=200))
def test_garbage_is_invalid_or_read(data: bytes) -> None:
    for call in (lambda: wire.length(data[: wire.PREFIX_SIZE]), lambda: wire.decode(data)):
        try:
            call()
        except Invalid:
            continue


@given(st.integers(0, len(HELLO) - 1), st.integers(0, 255))
def test_one_wrong_byte(position: int, value: int) -> None:
    try:
        wire.decode(HELLO[:position] + bytes([value]) + HELLO[position + 1 :])
    except Invalid:
        return
