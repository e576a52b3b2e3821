"""Texts that are IP addresses."""

import pytest

from pykubelet.kubelet.types.ip_addresses import is_ip, parse_ip


@pytest.mark.parametrize(
    ("text", "version"), [("10.0.0.1", 4), ("fd00::1", 6), ("", None), ("10.0.0", None), ("010.0.0.1", None)]
)
def test_address_of_either_family_is_parsed(text: str, version: int | None) -> None:
    address = parse_ip(text)
    assert (address.version if address else None) == version
    assert is_ip(text) is (version is not None)
