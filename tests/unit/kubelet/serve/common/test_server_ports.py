"""Ports of the agent's servers that exclude each other, and those that are tried out."""

import pytest

from pykubelet.kubelet.serve.common.plan.server_ports import Port, port_clash, ports_to_try


def ports(*given: tuple[str, int]) -> list[Port]:
    return [Port(f"port{index}", address, number) for index, (address, number) in enumerate(given)]


@pytest.mark.parametrize(
    "given",
    [
        ports(),
        ports(("127.0.0.1", 1), ("127.0.0.1", 2)),
        ports(("127.0.0.1", 1), ("10.0.0.1", 1)),
        ports(("0.0.0.0", 0), ("0.0.0.0", 0)),
    ],
)
def test_ports_that_differ_in_number_or_address_do_not_clash(given: list[Port]) -> None:
    assert port_clash(given) is None


@pytest.mark.parametrize("addresses", [("10.0.0.1", "10.0.0.1"), ("0.0.0.0", "10.0.0.1"), ("10.0.0.1", "::")])
def test_second_server_of_a_port_is_named_with_the_first(addresses: tuple[str, str]) -> None:
    one, other = addresses
    found = port_clash(ports((one, 7), ("127.0.0.1", 8), (other, 7)))
    assert found == "port2: 7 is the port of port0, too; choose another port"


def test_ports_of_the_agent_and_ports_that_are_not_used_are_not_tried_out() -> None:
    wanted = ports(("127.0.0.1", 1), ("127.0.0.1", 2), ("127.0.0.1", 0))
    assert ports_to_try(wanted, []) == wanted[:2]
    assert ports_to_try(wanted, ports(("10.0.0.1", 1))) == wanted[1:2]
