"""The node's name and addresses."""

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.config import node_identity


@pytest.mark.parametrize(
    ("flags", "given", "all_of_them"),
    [
        ([], (), ("192.0.2.7",)),
        ([""], (), ("192.0.2.7",)),
        (["10.0.0.1"], ("10.0.0.1",), ("10.0.0.1",)),
        (["10.0.0.1,fd00::1"], ("10.0.0.1", "fd00::1"), ("10.0.0.1", "fd00::1")),
        (["fd00::1", "10.0.0.1"], ("fd00::1", "10.0.0.1"), ("fd00::1", "10.0.0.1")),
        (["0.0.0.0"], ("0.0.0.0",), ("192.0.2.7",)),
        (["::"], ("::",), ("2001:db8::7",)),
    ],
)
def test_node_addresses_are_those_given_or_of_the_default_route(
    monkeypatch: pytest.MonkeyPatch, flags: list[str], given: tuple[str, ...], all_of_them: tuple[str, ...]
) -> None:
    monkeypatch.setattr(
        node_identity, "_source_address", lambda _, target: "2001:db8::7" if ":" in target else "192.0.2.7"
    )
    assert (node_identity.given_ips(flags), node_identity.node_ips(node_identity.given_ips(flags))) == (
        given,
        all_of_them,
    )


def test_a_machine_without_a_route_has_no_address_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_identity, "_source_address", lambda *_: "")
    assert node_identity.node_ips([]) == ()


@pytest.mark.parametrize(
    "flags", [["10.0.0"], ["10.0.0.1,10.0.0.2"], ["10.0.0.1,fd00::1,fd00::2"], ["0.0.0.0,fd00::1"]]
)
def test_malformed_address_is_named(flags: list[str]) -> None:
    with pytest.raises(Invalid, match="--node-ip"):
        node_identity.given_ips(flags)


def test_names_are_in_lower_case() -> None:
    assert node_identity.node_name(" Node-A ") == "node-a"
