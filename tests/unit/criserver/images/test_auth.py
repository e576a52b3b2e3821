"""Challenges, and who is told credentials."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.errors import Invalid, Permanent
from pykubelet.criserver.images.registry.auth import Challenge, Credentials, parse_challenges, token_request
from pykubelet.criserver.images.registry.config import Endpoint, Host, endpoints

ALICE = Credentials("alice", "s3cret")
HUB = Endpoint("https://registry-1.docker.io", "docker.io")


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ('Bearer realm="https://a/t",service="s"', [("bearer", {"realm": "https://a/t", "service": "s"})]),
        ('Basic realm="x, y"', [("basic", {"realm": "x, y"})]),
        (
            'Basic realm="a", Bearer realm="b" , scope=c',
            [("basic", {"realm": "a"}), ("bearer", {"realm": "b", "scope": "c"})],
        ),
        ('Negotiate, Basic realm="a\\"b"', [("negotiate", {}), ("basic", {"realm": 'a"b'})]),
        ("", []),
        ("=?", []),
    ],
)
def test_challenges(header: str, expected: list[tuple[str, dict[str, str]]]) -> None:
    assert [(one.scheme, one.parameters) for one in parse_challenges([header])] == expected


@given(st.text(alphabet='aB ,="\\\t-x', max_size=200))
def test_any_header_is_read_without_an_error(header: str) -> None:
    for challenge in parse_challenges([header]):
        assert challenge.scheme


@pytest.mark.parametrize(
    ("base", "realm", "told"),
    [
        ("https://registry-1.docker.io", "https://auth.docker.io/token", True),
        ("https://r.example.com", "https://r.example.com:8443/t", True),
        ("https://r.example.com", "https://evil.net/t", False),
        ("https://10.0.0.1", "https://10.0.0.2/t", False),
        ("https://example.com", "https://com/t", False),
        ("https://aexample.com", "https://example.com/t", False),
        ("http://127.0.0.1:5000", "http://127.0.0.1:5001/t", True),
    ],
)
def test_only_the_registrys_own_domain_is_told_credentials(base: str, realm: str, told: bool) -> None:
    endpoint = Endpoint(base, base.partition("//")[2])
    request = token_request(Challenge("bearer", {"realm": realm}), ALICE, endpoint, "a/b")
    assert bool(request.authorization) is told
    assert request.url.endswith("?scope=repository%3Aa%2Fb%3Apull")
    identity = token_request(Challenge("bearer", {"realm": realm}), Credentials(identity_token="i"), endpoint, "a/b")
    assert (identity.form.get("refresh_token") == "i") is told


@pytest.mark.parametrize(
    "realm", ["", "ftp://a/b", "http://auth.docker.io/t", "//x", "https://u:p@docker.io/t", "/etc/passwd"]
)
def test_realms_that_are_not_asked(realm: str) -> None:
    with pytest.raises(Permanent, match="token service"):
        token_request(Challenge("bearer", {"realm": realm}), ALICE, HUB, "a/b")


def test_endpoints() -> None:
    hosts = {"docker.io": Host(("https://m.example/docker/", "http://10.0.0.1:5000")), "r:5000": Host(plain_http=True)}
    assert [(e.base, e.host, e.namespace) for e in endpoints("docker.io", hosts)] == [
        ("https://m.example/docker", "m.example", "docker.io"),
        ("http://10.0.0.1:5000", "10.0.0.1:5000", "docker.io"),
        ("https://registry-1.docker.io", "docker.io", ""),
    ]
    assert [e.base for e in endpoints("r:5000", hosts)] == ["http://r:5000"]
    assert [e.base for e in endpoints("localhost:5000", {})] == ["http://localhost:5000"]
    assert [e.base for e in endpoints("quay.io", {})] == ["https://quay.io"]
    for bad in ("ftp://x", "m.example", "https://u:p@m.example", "https://m.example?x=1"):
        with pytest.raises(Invalid, match="mirror"):
            endpoints("quay.io", {"quay.io": Host((bad,))})
