"""Proxies of the environment."""

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.base.http.proxy import proxy_for, refusal

PROXY = {"HTTPS_PROXY": "http://proxy.example:3128", "HTTP_PROXY": "plain.example:8080"}


@pytest.mark.parametrize(
    ("url", "no_proxy", "direct"),
    [
        ("https://api.example:6443", "", False),
        ("https://localhost:6443", "", True),
        ("https://127.8.8.8:6443", "", True),
        ("https://[::1]:6443", "", True),
        ("https://api.example:6443", "*", True),
        ("https://api.example:6443", "other, example", True),
        ("https://example:6443", ".example", False),
        ("https://api.example:6443", ".example", True),
        ("https://example:6443", "*.example", False),
        ("https://a.b.example:6443", "*.example", True),
        ("https://notexample:6443", "example", False),
        ("https://API.Example:6443", "api.EXAMPLE", True),
        ("https://api.example:6443", "api.example:443", False),
        ("https://api.example:6443", "api.example:6443", True),
        ("https://api.example", "api.example:443", True),
        ("https://10.96.0.1", "10.96.0.0/12", True),
        ("https://10.200.0.1", "10.96.0.0/12", False),
        ("https://10.96.0.1:6443", "10.96.0.1", True),
        ("https://10.96.0.1:6443", "10.96.0.1:443", False),
        ("https://[fd00::1]:6443", "fd00::/8", True),
        ("https://[fd00::1]:6443", "fd00::1", True),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", True),
        ("https://api.example", "10.96.0.0/12, nonsense/99, :80", False),
    ],
)
def test_no_proxy_names_hosts_that_are_reached_directly(url: str, no_proxy: str, direct: bool) -> None:
    found = proxy_for(url, {**PROXY, "NO_PROXY": no_proxy})
    assert found == ("" if direct else "http://proxy.example:3128")


def test_proxy_comes_from_the_variable_of_the_scheme() -> None:
    assert proxy_for("http://api.example", PROXY) == "http://plain.example:8080"
    assert proxy_for("https://api.example", {"https_proxy": "https://u:p@p"}) == "https://u:p@p"
    assert proxy_for("https://api.example", {"HTTP_PROXY": "http://p"}) == ""
    assert proxy_for("http://api.example", {"HTTP_PROXY": "http://p", "REQUEST_METHOD": "GET"}) == ""
    assert proxy_for("https://api.example", {**PROXY, "no_proxy": "example"}) == ""
    with pytest.raises(Invalid, match=r"HTTPS_PROXY: the proxy socks5://.* cannot be used, only http://HOST:PORT"):
        proxy_for("https://api.example", {"HTTPS_PROXY": "socks5://secret@p:1080"})


def test_refusal_of_a_proxy_has_a_short_reason_in_one_line() -> None:
    assert refusal(407, "Proxy\r\nAuthentication") == r"the proxy answered 407 Proxy\r\nAuthentication"
    assert refusal(502, "") == "the proxy answered 502"
    assert len(refusal(502, "x" * 5000)) < 200
