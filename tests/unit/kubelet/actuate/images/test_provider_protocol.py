"""The protocol of credential provider plugins: matching, requests, answers, keys of the cache."""

import json
from typing import Final

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.actuate.images.plan import provider_protocol as protocol
from pykubelet.kubelet.actuate.images.plan.keyring import RegistryCredentials

V1: Final = "credentialprovider.kubelet.k8s.io/v1"
OWNER: Final = protocol.account_owner("shop", "web", "uid-1")


@pytest.mark.parametrize(
    ("pattern", "repository", "expected"),
    [
        ("gcr.io", "gcr.io/team/app", True),
        ("gcr.io", "eu.gcr.io/team/app", False),
        ("*.gcr.io", "eu.gcr.io/team/app", True),
        ("*.gcr.io", "gcr.io/team/app", False),
        ("*.io", "eu.gcr.io/app", False),
        ("*.dkr.ecr.*.amazonaws.com", "123.dkr.ecr.eu-1.amazonaws.com/a", True),
        ("app*.k8s.io", "app7.k8s.io/x", True),
        ("app?.k8s.io", "app77.k8s.io/x", False),
        ("registry.io:8080/path", "registry.io:8080/path/app", True),
        ("registry.io:8080/path", "registry.io:8080/other", False),
        ("registry.io:8080/path", "registry.io/path/app", False),
        ("registry.io", "registry.io:8080/path/app", False),
        ("registry.io/pa", "registry.io/path", True),
        ("docker.io", "docker.io/library/busybox", True),
        ("[2001:db8::1]:5000", "[2001:db8::1]:5000/team/app", True),
    ],
)
def test_match_images_by_label_port_and_path(pattern: str, repository: str, expected: bool) -> None:
    assert protocol.any_matches((pattern,), repository) is expected
    assert protocol.any_matches(("other.example", pattern), repository) is expected


def test_request_has_the_account_only_if_there_is_one() -> None:
    assert json.loads(protocol.request(V1, "r.io/a", None)) == {
        "kind": "CredentialProviderRequest",
        "apiVersion": V1,
        "image": "r.io/a",
    }
    account = protocol.identity(
        OWNER, {"a": "1", "b": "2", "c": "3"}, required=("b",), optional=("a", "none"), token="jwt"
    )
    sent = json.loads(protocol.request(V1, "r.io/a", account))
    assert (sent["serviceAccountToken"], sent["serviceAccountAnnotations"]) == ("jwt", {"a": "1", "b": "2"})
    assert "jwt" not in repr(account)
    plain = protocol.identity(OWNER, {"a": "1"}, required=(), optional=(), token="jwt")
    assert "serviceAccountAnnotations" not in json.loads(protocol.request(V1, "r.io/a", plain))


def answer(**fields: object) -> bytes:
    document = {"kind": "CredentialProviderResponse", "apiVersion": V1, "cacheKeyType": "Image", **fields}
    return json.dumps({key: value for key, value in document.items() if value != "absent"}).encode()


@pytest.mark.parametrize(
    ("fields", "cache_for"),
    [
        ({}, 60.0),
        ({"cacheDuration": None}, 60.0),
        ({"cacheDuration": "0s"}, 0.0),
        ({"cacheDuration": "5h0m1s"}, 18001.0),
        ({"cacheDuration": "-1s"}, 0.0),
    ],
)
def test_cache_duration_overrides_the_default(fields: dict[str, object], cache_for: float) -> None:
    assert protocol.read_answer(answer(**fields), V1, 60.0).cache_for == cache_for


def test_answer_has_credentials_by_location() -> None:
    found = protocol.read_answer(answer(auth={"r.io": {"username": "u", "password": "secret"}}), V1, 0.0)
    assert found.auth == {"r.io": RegistryCredentials("u", "secret")}
    assert "secret" not in repr(found)
    assert protocol.read_answer(answer(auth=None), V1, 0.0).auth == {}
    assert protocol.read_answer(answer(auth={"r.io": None}), V1, 0.0).auth == {"r.io": RegistryCredentials("", "")}


@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"secret",
        b"[" * 100_000,
        b"\xff\xfe",
        answer(kind="Secret"),
        answer(apiVersion=V1 + "beta1"),
        answer(cacheKeyType="absent"),
        answer(cacheKeyType="secret"),
        answer(cacheDuration="secret"),
        answer(cacheDuration=5),
        answer(cacheDuration="9" * 400 + "h"),
        answer(cacheDuration="2562048h"),
        answer(auth=["secret"]),
        answer(auth={"r.io": {"username": "u", "passwort": "secret"}}),
        answer(secret="secret"),
    ],
)
def test_invalid_answer_is_rejected_without_its_text(output: bytes) -> None:
    with pytest.raises(Invalid) as caught:
        protocol.read_answer(output, V1, 0.0)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_cached_answer_is_found_for_what_its_key_type_covers() -> None:
    def finds(kind: str, stored: str, asked: str, stored_for: object = None, asked_for: object = None) -> bool:
        key = protocol.cache_key(kind, stored, str(stored_for))
        return key in protocol.cache_keys(asked, str(asked_for))

    assert finds("Image", "r.io/a", "r.io/a")
    assert not finds("Image", "r.io/a", "r.io/b")
    assert finds("Registry", "r.io/a", "r.io/b")
    assert not finds("Registry", "r.io/a", "r.io:5000/a")
    assert finds("Global", "r.io/a", "other.io/b")
    assert not finds("Global", "r.io/a", "r.io/a", stored_for="one", asked_for="two")
    assert protocol.cache_key("Global", "Image", None) != protocol.cache_key("Image", "Image", None)


def test_cache_of_an_account_follows_its_cache_type() -> None:
    def key(token: str, cache_type: str, annotations: dict[str, str] | None = None, uid: str = "uid-1") -> object:
        owner = protocol.account_owner("shop", "web", uid)
        found = protocol.identity(owner, annotations or {}, required=("a",), optional=(), token=token)
        return found.cache_key(cache_type)

    assert key("one", "ServiceAccount") == key("two", "ServiceAccount")
    assert key("one", "ServiceAccount") != key("one", "ServiceAccount", {"a": "1"})
    assert key("one", "ServiceAccount") == key("one", "ServiceAccount", {"not wanted": "1"})
    assert key("one", "ServiceAccount") != key("one", "ServiceAccount", uid="uid-2")
    assert key("one", "Token") != key("two", "Token")
    assert "one" not in repr(key("one", "Token")).split("'")


def test_returned_token_needs_the_cache_type_token() -> None:
    account = protocol.identity(OWNER, {}, required=(), optional=(), token="jwt")
    echoed = protocol.read_answer(answer(auth={"r.io": {"username": "u", "password": "jwt"}}), V1, 0.0)
    other = protocol.read_answer(answer(auth={"r.io": {"username": "u", "password": "p"}}), V1, 0.0)
    assert protocol.echoes_token(echoed, account, "ServiceAccount")
    assert not protocol.echoes_token(echoed, account, "Token")
    assert not protocol.echoes_token(other, account, "ServiceAccount")
    assert not protocol.echoes_token(echoed, None, "")
