"""Challenges, and the servers that receive credentials."""

from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.errors import Invalid, Permanent
from pykubelet.criserver.images.registry.auth import Challenge, HostCredentials, parse_challenges, token_requests
from pykubelet.criserver.images.registry.config import Endpoint, HostConfig, Tls, endpoints

ALICE = HostCredentials("alice", "s3cret")
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
def test_challenges_of_a_registry_are_parsed(header: str, expected: list[tuple[str, dict[str, str]]]) -> None:
    assert [(one.scheme, one.parameters) for one in parse_challenges([header])] == expected


@given(st.text(alphabet='aB ,="\\\t-x', max_size=200))
def test_any_header_is_read_without_an_error(header: str) -> None:
    for challenge in parse_challenges([header]):
        assert challenge.scheme


@pytest.mark.parametrize(
    ("base", "proven", "realm", "reported"),
    [
        ("https://registry-1.docker.io", True, "https://auth.docker.io/token", True),
        ("https://registry.gitlab.com", True, "https://gitlab.com/jwt/auth", True),
        ("https://r.example.com", True, "https://r.example.com:8443/t", True),
        # The registry names the servers it trusts, but only an authenticated registry is believed.
        ("https://r.example.com", True, "https://login.other.net/t", True),
        ("https://r.example.com", False, "https://login.other.net/t", False),
        ("https://a.co.uk", False, "https://b.co.uk/t", False),
        ("https://10.0.0.1", False, "https://10.0.0.2/t", False),
        ("https://r.example.com", False, "https://r.example.com/t", True),
        ("http://r.example.com:5000", False, "https://auth.example.com/t", False),
        ("http://r.example.com:5000", False, "http://auth.example.com/t", False),
        ("http://127.0.0.1:5000", False, "http://127.0.0.1:5001/t", True),
    ],
)
def test_credentials_are_sent_to_trusted_token_servers_only(
    base: str, proven: bool, realm: str, reported: bool
) -> None:
    endpoint = Endpoint(base, base.partition("//")[2], tls=Tls(skip_verify=not proven))
    (request,) = token_requests(Challenge("bearer", {"realm": realm}), ALICE, endpoint, "a/b")
    assert bool(request.authorization) is reported
    assert request.url.endswith("?scope=repository%3Aa%2Fb%3Apull")
    identity = token_requests(
        Challenge("bearer", {"realm": realm}), HostCredentials(identity_token="i"), endpoint, "a/b"
    )
    assert (identity[0].form.get("refresh_token") == "i") is reported
    assert any(each.authorization for each in identity) is reported


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("", ["repository:a/b:pull"]),
        ("repository:a/b:pull", ["repository:a/b:pull"]),
        ("repository:docker-remote/a/b:pull", ["repository:a/b:pull", "repository:docker-remote/a/b:pull"]),
        ("repository:x:pull,push registry:catalog:*", ["repository:a/b:pull", "repository:x:pull"]),
        ("repository(plugin):x:*", ["repository:a/b:pull", "repository:x:pull"]),
        ("repository:x:push,delete nonsense repository:x&service=y:pull", ["repository:a/b:pull"]),
        (" ".join(f"repository:x{n}:pull" for n in range(99)), 5),
    ],
)
def test_scopes_of_a_challenge_are_asked_for_but_to_pull_only(said: str, asked: list[str] | int) -> None:
    parameters = {"realm": "https://auth.docker.io/t", "scope": said}
    (request,) = token_requests(Challenge("bearer", parameters), ALICE, HUB, "a/b")
    scopes = parse_qs(urlsplit(request.url).query)["scope"]
    assert (len(scopes) if isinstance(asked, int) else scopes) == asked


@pytest.mark.parametrize(
    "realm", ["", "ftp://a/b", "http://auth.docker.io/t", "//x", "https://u:p@docker.io/t", "/etc/passwd", "https://[a"]
)
def test_realms_that_are_not_asked(realm: str) -> None:
    with pytest.raises(Permanent, match="token service"):
        token_requests(Challenge("bearer", {"realm": realm}), ALICE, HUB, "a/b")


def test_server_is_proven_by_checked_tls_or_its_configuration() -> None:
    unchecked = HostConfig(
        tls=Tls(skip_verify=True), mirrors=("https://m.example", "http://m.example", "https://odd.example")
    )
    hosts = {
        "r.example": unchecked,
        "odd.example": HostConfig(tls=Tls(skip_verify=True)),
        "plain.example": HostConfig(plain_http=True),
    }
    assert [one.proven for one in endpoints("r.example", hosts)] == [True, False, False, False]
    assert [
        one.proven for host in ("docker.io", "plain.example", "localhost:5000") for one in endpoints(host, hosts)
    ] == [
        True,
        False,
        False,
    ]


def test_endpoints_of_a_registry_are_mirrors_first_then_the_host() -> None:
    hosts = {
        "docker.io": HostConfig(("https://m.example/docker/", "http://10.0.0.1:5000")),
        "r:5000": HostConfig(plain_http=True),
    }
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
            endpoints("quay.io", {"quay.io": HostConfig((bad,))})
