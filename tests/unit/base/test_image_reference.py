"""Image references, compared with Docker's grammar."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.errors import Invalid
from pykubelet.base.image_reference import InvalidReference, default_pull_policy, parse, with_default_tag

SHA = "a" * 64


@pytest.mark.parametrize(
    ("image", "repository", "tag", "digest"),
    [
        ("busybox", "docker.io/library/busybox", "latest", ""),
        ("busybox:1.36", "docker.io/library/busybox", "1.36", ""),
        ("team/app", "docker.io/team/app", "latest", ""),
        ("docker.io/busybox", "docker.io/library/busybox", "latest", ""),
        ("index.docker.io/team/app:2", "docker.io/team/app", "2", ""),
        ("localhost/app:1", "localhost/app", "1", ""),
        ("localhost:5000/app", "localhost:5000/app", "latest", ""),
        ("registry.example.com/a/b/c:v1", "registry.example.com/a/b/c", "v1", ""),
        ("[2001:db8::1]:5000/app:v1", "[2001:db8::1]:5000/app", "v1", ""),
        (f"app@sha256:{SHA}", "docker.io/library/app", "", f"sha256:{SHA}"),
        (f"r.io/app:v1@sha256:{SHA}", "r.io/app", "v1", f"sha256:{SHA}"),
        ("Registry/app", "Registry/app", "latest", ""),
        ("a__b/c.d-e_f", "docker.io/a__b/c.d-e_f", "latest", ""),
    ],
)
def test_image_names_are_parsed(image: str, repository: str, tag: str, digest: str) -> None:
    found = parse(image)
    assert (found.name, found.tag, found.digest) == (repository, tag, digest)
    assert found.name == f"{found.host}/{found.path}"


@pytest.mark.parametrize(
    ("image", "why"),
    [
        ("", "invalid reference format"),
        ("Busybox", "repository name (library/Busybox) must be lowercase"),
        ("r.io/App:1", "repository name (App) must be lowercase"),
        ("busybox:", "invalid reference format"),
        ("busybox:-x", "invalid reference format"),
        (f"busybox:{'t' * 129}", "invalid reference format"),
        ("a b", "invalid reference format"),
        ("/busybox", "invalid reference format"),
        ("busybox\n", "invalid reference format"),
        ("https://r.io/app", "invalid reference format"),
        (SHA, "cannot specify 64-byte hexadecimal strings"),
        ("r.io/" + "a" * 256, "must not be more than 255 characters"),
        ("app@sha256:" + "a" * 40, "invalid checksum digest length"),
        ("app@sha256:" + "A" * 64, "invalid checksum digest format"),
        ("app@md5:" + "a" * 32, "unsupported digest algorithm"),
    ],
)
def test_bad_names_are_refused_with_the_reason(image: str, why: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse(image)
    assert str(caught.value).startswith(f'couldn\'t parse image name "{image}": ')
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("image", "detail"),
    [
        (SHA, f"{SHA!r} is an image id; give a name"),
        ("Busybox", "'library/Busybox' is invalid: names are lower case"),
        ("app@sha256:12", "'sha256:12' is not a digest"),
        ("app@md5:" + "a" * 32, f"'md5:{'a' * 32}' is not a digest: unsupported digest algorithm"),
        ("app:-x", "'-x' is not a valid tag"),
        ("app:", "'' is not a valid tag"),
        ("-host.com/app", "'-host.com' is not a valid registry host"),
        ("a___b", "'library/a___b' is invalid: not a repository name"),
        ("r.io/" + "a" * 256, f"'{'a' * 256}' is invalid: longer than 255 characters"),
    ],
)
def test_invalid_reference_names_the_invalid_part(image: str, detail: str) -> None:
    with pytest.raises(InvalidReference) as caught:
        parse(image)
    assert caught.value.detail == detail


def test_reference_with_tag_and_digest_is_requested_by_its_digest() -> None:
    both = parse(f"r.io/app:v1@sha256:{SHA}")
    assert (both.target, str(both)) == (f"sha256:{SHA}", f"r.io/app@sha256:{SHA}")
    tagged = parse("r.io/app:v1")
    assert (tagged.target, str(tagged)) == ("v1", "r.io/app:v1")
    assert tagged.with_digest("sha256:1") == "r.io/app@sha256:1"


@pytest.mark.parametrize(
    ("image", "full"),
    [
        ("busybox", "busybox:latest"),
        ("busybox:1", "busybox:1"),
        ("localhost:5000/app", "localhost:5000/app:latest"),
        (f"app@sha256:{SHA}", f"app@sha256:{SHA}"),
    ],
)
def test_the_default_tag_does_not_make_the_registry_explicit(image: str, full: str) -> None:
    assert with_default_tag(image) == full


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("busybox:1", "IfNotPresent"),
        (f"busybox:latest@sha256:{SHA}", "Always"),
        (f"busybox@sha256:{SHA}", "IfNotPresent"),
        ("NOT VALID", "IfNotPresent"),
    ],
)
def test_default_policy_goes_by_the_tag(image: str, policy: str) -> None:
    assert default_pull_policy(image) == policy


def test_long_text_is_no_name_and_is_not_repeated_in_the_message() -> None:
    longest = "h" * 3800 + ".example/" + "a" * 255
    assert parse(longest).path == "a" * 255
    with pytest.raises(InvalidReference) as caught:
        parse("é" * 1_000_000)
    assert str(caught.value) == f'couldn\'t parse image name "{"é" * 256}…": invalid reference format'
    assert "longer than 4096 characters" in caught.value.detail and len(caught.value.detail) < 600


@given(st.text(max_size=80))
def test_any_text_is_a_name_or_invalid(text: str) -> None:
    try:
        full = with_default_tag(text)
    except Invalid:
        return
    assert with_default_tag(full) == full
    assert parse(full).name == parse(text).name
