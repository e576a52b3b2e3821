"""The rule of the policy for an image, and the decision whether an image that is present may be used."""

from collections.abc import Mapping

import pytest

from pykubelet.criserver.images.image_types import ImageConfig, ImageRecord, VerifiedSignature
from pykubelet.criserver.images.signatures import Action, Rule, load_key
from pykubelet.criserver.images.signatures.plan.policy import longest_scope, refusal
from pykubelet.testing.signing import new_signer

_KEY, _OTHER = (load_key(new_signer().pem, "key") for _ in range(2))
_ID = "sha256:" + "1234567890abcdef" * 4
_DENY, _ALLOW = Rule(action=Action.DENY, source="file: x"), Rule(action=Action.ALLOW)
_REQUIRE = Rule(action=Action.REQUIRE, scope="r.example/team", keys=(_KEY,), source="file: team")


@pytest.mark.parametrize(
    ("repository", "scope"),
    [
        ("r.example/team/app", "r.example/team"),
        ("r.example/team", "r.example/team"),
        ("r.example/teams/app", "r.example"),
        ("r.example/other", "r.example"),
        ("r.example:5000/team/app", ""),
        ("other.example/r.example/team", ""),
        ("", ""),
    ],
)
def test_longest_scope_of_whole_components_counts(repository: str, scope: str) -> None:
    assert longest_scope({"r.example", "r.example/team"}, repository) == scope


@pytest.mark.parametrize(
    ("repository", "scope"),
    [
        ("R.Example/team/app", "r.example/team"),
        ("r.example:443/team/app", "r.example/team"),
        ("r.example:0443/team/app", "r.example/team"),
        ("r.example:05000/app", "R.example:5000"),
        ("r.example:5001/app", ""),
        ("r.example:80/team/app", ""),
        ("localhost:443/app", ""),
        ("registry-1.docker.io/library/app", "docker.io/library"),
        ("INDEX.docker.io:443/library/app", "docker.io/library"),
        ("other.example/team/app", "other.example:443/team"),
        ("[FD00::1]:443/app", ""),
        ("[FD00::1]:5000/app", "[fd00::1]:5000"),
    ],
)
def test_other_spelling_of_a_registry_evades_no_rule(repository: str, scope: str) -> None:
    scopes = {"r.example/team", "R.example:5000", "localhost", "docker.io/library", "other.example:443/team"}
    assert longest_scope({*scopes, "[fd00::1]:5000"}, repository) == scope


def test_rule_for_the_spelling_that_is_used_precedes_that_for_another_one() -> None:
    for scopes in (("r.example", "r.example:443"), ("r.example:443", "r.example")):
        assert longest_scope(scopes, "r.example:443/app") == "r.example:443"
        assert longest_scope(scopes, "r.example/app") == "r.example"


def test_identity_of_another_spelling_is_the_same() -> None:
    copied = Rule(action=Action.REQUIRE, scope="r.example/team", keys=(_KEY,), signed_as="vendor.example")
    assert copied.identity("R.example:443/team/app") == "vendor.example/app"
    assert _REQUIRE.identity("R.example:443/team/app") == "r.example/team/app"
    assert _REQUIRE.satisfied_by("r.example/team/app", [VerifiedSignature("r.example:443/team/app", _KEY.fingerprint)])


def _image(*tags: str, verified: tuple[VerifiedSignature, ...] = ()) -> ImageRecord:
    return ImageRecord(_ID, tags, (), 1, ImageConfig(), (), "sha256:2", verified=verified)


def _refusal(rules: Mapping[str, Rule], image: ImageRecord, name: str) -> str:
    return refusal(lambda repository: rules[longest_scope(rules.keys(), repository)], image, name)


def test_image_with_a_verified_signature_is_used_until_key_or_identity_change() -> None:
    image = _image("r.example/team/app:1", verified=(VerifiedSignature("r.example/team/app", _KEY.fingerprint),))
    assert _refusal({"r.example/team": _REQUIRE}, image, "r.example/team/app:1") == ""
    other_key = Rule(action=Action.REQUIRE, scope="r.example/team", keys=(_OTHER,))
    assert "without a verified signature" in _refusal({"r.example/team": other_key}, image, "r.example/team/app:1")
    renamed = Rule(action=Action.REQUIRE, scope="r.example/team", keys=(_KEY,), signed_as="vendor.example")
    assert "without a verified" in _refusal({"r.example/team": renamed}, image, "r.example/team/app:1")
    assert renamed.identity("r.example/team/app") == "vendor.example/app"


def test_signature_of_one_repository_permits_no_other_name_of_the_image() -> None:
    """``pykubelet image tag`` gives any image any name."""
    image = _image("r.example/team/app:1", verified=(VerifiedSignature("r.example/team/app", _KEY.fingerprint),))
    rules = {"r.example/team": _REQUIRE}
    assert "r.example/team/other is present without" in _refusal(rules, image, "r.example/team/other:1")


@pytest.mark.parametrize("name", [_ID, _ID[7:], _ID[:12], _ID[7:12], "", "not a name"])
def test_image_by_id_needs_one_permitted_name(name: str) -> None:
    """An id could also be read as a tag of docker.io/library/sha256, or as a name there, to which other rules apply."""
    rules = {"": _ALLOW, "r.example/team": _REQUIRE, "evil.example": _DENY}
    assert _refusal(rules, _image("r.example/team/app:1", "localhost/x:1"), name) == ""
    refused = _refusal(rules, _image("r.example/team/app:1", "evil.example/x:1"), name)
    assert "evil.example/x is denied by the image policy (file: x)" in refused
    assert _refusal(rules, _image(), name) == "", "without a name, by the default"
    assert f"{_ID} is denied" in _refusal({"": _DENY}, _image(), name)


def test_name_that_looks_like_another_id_is_a_name() -> None:
    rules = {"": _ALLOW, "docker.io": _DENY}
    assert "docker.io/library/beef is denied" in _refusal(rules, _image("localhost/x:1"), "beef")
