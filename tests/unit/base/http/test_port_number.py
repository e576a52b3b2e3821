"""Port numbers of requests and specs: what is one, and that no text makes Python raise."""

import pytest

from pykubelet.base.http.port_number import parse_port


@pytest.mark.parametrize(
    ("text", "port"), [("1", 1), ("80", 80), ("65535", 65535), ("00080", 80), ("0" * 5000 + "65535", 65535)]
)
def test_digits_are_a_port(text: str, port: int) -> None:
    assert parse_port(text) == port


@pytest.mark.parametrize(
    "text",
    ["", "0", "000", "65536", "00000165536", "-1", "+1", " 1", "1 ", "1_0", "0x50", "http", "٣", "²", "1" + "0" * 5000],
)
def test_other_text_is_no_port(text: str) -> None:
    assert parse_port(text) is None
