"""RegistryCredentials from pull secrets by image."""

import base64
import json

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.actuate.images.plan.keyring import Keyring, RegistryCredentials, keyring_of, keyring_of_file
from pykubelet.models.core_v1 import Secret


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def secret(auths: object, *, legacy: bool = False) -> Secret:
    document = auths if legacy else {"auths": auths}
    kind, key = (
        ("kubernetes.io/dockercfg", ".dockercfg") if legacy else ("kubernetes.io/dockerconfigjson", ".dockerconfigjson")
    )
    return Secret(type=kind, data={key: json.dumps(document).encode()})


def users(locations: list[str], repository: str) -> list[str]:
    keyring = Keyring()
    keyring.add({location: RegistryCredentials(location, "p") for location in locations})
    return [found.username for found in keyring.lookup(repository)]


@pytest.mark.parametrize(
    ("locations", "repository", "expected"),
    [
        (["r.io"], "r.io/app", ["r.io"]),
        (["r.io"], "other.io/app", []),
        (["r.io", "r.io/team", "r.io/team/app"], "r.io/team/app", ["r.io/team/app", "r.io/team", "r.io"]),
        (["r.io/team"], "r.io/other/app", []),
        (["https://r.io/v2/"], "r.io/app", ["https://r.io/v2/"]),
        (["http://r.io/v1/team"], "r.io/team/app", ["http://r.io/v1/team"]),
        (["r.io:5000"], "r.io/app", []),
        (["r.io:5000"], "r.io:5000/app", ["r.io:5000"]),
        (["*.r.io"], "eu.r.io/app", ["*.r.io"]),
        (["*.r.io"], "r.io/app", []),
        (["*.r.io"], "a.b.r.io/app", []),
        (["*.*.r.io"], "a.b.r.io/app", ["*.*.r.io"]),
        (["eu-*.r.io", "us.r.io"], "eu-1.r.io/app", ["eu-*.r.io"]),
        (["https://index.docker.io/v1/"], "docker.io/library/app", ["https://index.docker.io/v1/"]),
        (["docker.io"], "docker.io/library/app", ["docker.io"]),
        (["docker.io", "index.docker.io"], "docker.io/library/app", ["docker.io"]),
        (["https://index.docker.io/v1/"], "r.io/app", []),
        (["https://[bad"], "r.io/app", []),
        (["https://index.docker.io/v1/"], "app", ["https://index.docker.io/v1/"]),
        (["https://index.docker.io/v1/"], "team/app", ["https://index.docker.io/v1/"]),
        (["https://index.docker.io/v1/"], "localhost:5000/app", []),
        (["https://index.docker.io/v1/"], "registry:5000/app", []),
        (["https://index.docker.io/v1/"], "/app", []),
        (["https://[bad", "r.io", "http://also[bad"], "r.io/app", ["r.io"]),
        (["user@r.io"], "r.io/app", ["user@r.io"]),
        (["[2001:db8::1]:5000"], "[2001:db8::1]:5000/team/app", ["[2001:db8::1]:5000"]),
        (["https://[2001:db8::1]:5000/v2/"], "[2001:db8::1]:5000/app", ["https://[2001:db8::1]:5000/v2/"]),
        (["[2001:db8::1]"], "[2001:db8::1]/team/app", ["[2001:db8::1]"]),
        (["[1::db8]"], "[2::db8]/app", []),
        (["[2001:db8::1]", "[2001:db8::1]:5000", "[2001:db8::2]:443"], "[2001:db8::1]:443/app", []),
    ],
)
def test_credentials_are_looked_up_by_the_most_specific_location(
    locations: list[str], repository: str, expected: list[str]
) -> None:
    assert users(locations, repository) == expected


def test_both_kinds_of_secret_are_read_and_others_skipped() -> None:
    keyring = keyring_of(
        [
            Secret(type="Opaque", data={".dockerconfigjson": b"not json"}),
            Secret(type="kubernetes.io/dockerconfigjson"),
            Secret(type="kubernetes.io/dockercfg"),
            Secret(type="Opaque", data={".dockercfg": b"not json"}),
            secret({"r.io": {"auth": b64("u1:p:1")}}),
            secret({"r.io": {"username": "u2", "password": "p2", "email": "e"}}, legacy=True),
        ]
    )
    assert keyring.lookup("r.io/app") == (RegistryCredentials("u1", "p:1"), RegistryCredentials("u2", "p2"))


@pytest.mark.parametrize("entry", [{"username": "token"}, {"password": "p"}, {"auth": b64("u:p")}, {}])
def test_entry_of_a_file_without_user_and_password_is_left_to_its_credential_helper(entry: dict[str, str]) -> None:
    keyring = keyring_of_file(json.dumps({"auths": {"r.io": entry}}).encode(), legacy=False, where="config.json")
    assert bool(keyring.lookup("r.io/app")) == bool(entry)


def test_auth_wins_over_username_and_needs_no_padding() -> None:
    keyring = keyring_of([secret({"r.io": {"username": "x", "password": "y", "auth": b64("ab:cd").rstrip("=")}})])
    assert keyring.lookup("r.io/app") == (RegistryCredentials("ab", "cd"),)


def test_equal_candidates_are_tried_once() -> None:
    entry = {"r.io": {"auth": b64("u:p")}}
    assert keyring_of([secret(entry), secret(entry)]).lookup("r.io/app") == (RegistryCredentials("u", "p"),)


@pytest.mark.parametrize(
    "broken",
    [
        Secret(type="kubernetes.io/dockerconfigjson", data={".dockerconfigjson": b"{"}),
        Secret(type="kubernetes.io/dockerconfigjson", data={".dockerconfigjson": b"[]"}),
        secret(["r.io"]),
        secret({"r.io": "u:p"}),
        secret({"r.io": {"auth": "%%%"}}),
        secret({"r.io": {"auth": "pä"}}),
        secret({"r.io": {"auth": b64("no colon, hunter2")}}),
        secret({"r.io": {"username": 7}}),
    ],
)
def test_broken_secrets_are_named_without_showing_their_content(broken: Secret) -> None:
    with pytest.raises(Invalid, match="pull secret") as caught:
        keyring_of([broken])
    assert "hunter2" not in str(caught.value)


def test_passwords_do_not_show() -> None:
    assert "hunter2" not in repr(RegistryCredentials("u", "hunter2"))


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        (b'{"auths": ' + b"[" * 200_000, "nested too deeply"),
        (b'{"auths": ' + b'{"r.io": ' * 200_000, "nested too deeply"),
        (b'{"auths": {"r.io": {"username": "\\ud800", "password": "p"}}}', "not JSON"),
        (b'{"auths": {"r\xff.io": {"username": "u", "password": "p"}}}', "not JSON"),
    ],
    ids=["deep-list", "deep-object", "half-pair", "no-utf8"],
)
def test_keyring_of_a_hostile_secret_raises_invalid(text: bytes, reported: str) -> None:
    made = Secret(type="kubernetes.io/dockerconfigjson", data={".dockerconfigjson": text})
    with pytest.raises(Invalid, match=reported):
        keyring_of([made])
