"""The choice of the node's addresses."""

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.config.addresses import AddressSources, choose_addresses

LOCAL = frozenset({"10.0.0.5", "10.0.0.6", "fd00::5", "127.0.0.1", "169.254.7.7"})


def sources(**fields: object) -> AddressSources:
    return AddressSources(**{"name": "n", "local": LOCAL, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "chosen"),
    [
        ({"given": ("10.0.0.5",), "looked_up": ("10.0.0.6",)}, ("10.0.0.5",)),
        ({"given": ("fd00::5", "10.0.0.5")}, ("fd00::5", "10.0.0.5")),
        ({"name": "192.0.2.8", "looked_up": ("10.0.0.6",)}, ("192.0.2.8",)),
        ({"looked_up": ("127.0.1.1", "192.0.2.8", "fd00::5", "10.0.0.6"), "default": ("10.0.0.5",)}, ("10.0.0.6",)),
        ({"looked_up": ("fd00::5",), "default": ("10.0.0.5",)}, ("fd00::5",)),
        ({"given": ("::",), "looked_up": ("10.0.0.6", "fd00::5")}, ("fd00::5",)),
        ({"looked_up": ("127.0.1.1",), "default": ("10.0.0.5", "fd00::5")}, ("10.0.0.5",)),
        ({"given": ("::",), "default": ("10.0.0.5", "fd00::5")}, ("fd00::5",)),
        ({"given": ("0.0.0.0",), "looked_up": None, "default": ("10.0.0.5",)}, ("10.0.0.5",)),
        ({"local": None, "given": ("192.0.2.8",)}, ("192.0.2.8",)),
    ],
)
def test_address_comes_from_the_first_source_that_has_one(fields: dict[str, object], chosen: tuple[str, ...]) -> None:
    assert choose_addresses(sources(**fields)) == chosen


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"given": ("127.0.0.1",)}, "failed to validate nodeIP: .*can't be loopback address"),
        ({"given": ("::1",)}, "loopback"),
        ({"given": ("169.254.7.7",)}, "link-local"),
        ({"given": ("224.0.0.1",)}, "multicast"),
        ({"given": ("10.0.0.5", "fd00::9")}, "fd00::9.* not found in the host's network interfaces"),
        ({}, "can't get ip address of node n"),
        ({"looked_up": ("127.0.1.1",), "default": ("169.254.7.7",)}, "can't get ip address of node n"),
    ],
)
def test_unusable_addresses_are_refused(fields: dict[str, object], fault: str) -> None:
    with pytest.raises(Invalid, match=fault):
        choose_addresses(sources(**fields))


def test_an_outage_of_the_name_service_keeps_the_address() -> None:
    found = sources(looked_up=None, default=("10.0.0.5",))
    assert choose_addresses(found, ("10.0.0.6",)) == ("10.0.0.6",)
    # Not one that the machine has lost meanwhile.
    assert choose_addresses(found, ("10.0.0.99",)) == ("10.0.0.5",)
