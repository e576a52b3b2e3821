"""References: what users write and what it stands for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base import image_reference
from pykubelet.base.errors import Invalid
from pykubelet.criserver.images.reference import id_prefix, parse

D = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("busybox:1.36", "docker.io/library/busybox:1.36"),
        ("team/app", "docker.io/team/app:latest"),
        ("docker.io/busybox", "docker.io/library/busybox:latest"),
        ("index.docker.io/library/busybox:1", "docker.io/library/busybox:1"),
        ("localhost/app:1", "localhost/app:1"),
        ("localhost:5000/app", "localhost:5000/app:latest"),
        ("10.0.0.1:5000/a/b/c:t", "10.0.0.1:5000/a/b/c:t"),
        ("[::1]:5000/app:1", "[::1]:5000/app:1"),
        ("registry.k8s.io/pause:3.9", "registry.k8s.io/pause:3.9"),
        (f"busybox@{D}", f"docker.io/library/busybox@{D}"),
        (f"quay.io/a/b:1@{D}", f"quay.io/a/b@{D}"),
        ("UPPER/app", "UPPER/app:latest"),
    ],
)
def test_full_form_has_registry_repository_and_tag(text: str, full: str) -> None:
    assert str(parse(text)) == full
    assert str(parse(full)) == full


NO_REFERENCES = (
    ["", "Busybox", "a b", "app:", "app:-x", "app@sha256:12", f"app@{D}0", "a" * 64, "/app", "a//b", "app:1:2", "app@"],
    ["x/../y", "host.com/" + "a" * 300, "http://host/app", "app\n", "app:1\n", "-host.com/app", "a___b"],
)


@pytest.mark.parametrize("text", [text for some in NO_REFERENCES for text in some])
def test_malformed_image_reference_is_invalid(text: str) -> None:
    with pytest.raises(Invalid, match="image reference"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("app@sha384:" + "a" * 96, "is not a sha256 or sha512 digest"),
        ("app@sha256:" + "A" * 64, "is not a sha256 or sha512 digest"),
        ("a" * 64 + "@" + D, "is an image id; give a name"),
        ("host.com/" + "a" * 247, "is invalid: not a repository name"),
    ],
)
def test_valid_references_beyond_the_limits_of_this_runtime_are_rejected(text: str, why: str) -> None:
    image_reference.parse(text.lower())
    with pytest.raises(Invalid, match=why):
        parse(text)


@given(st.text(max_size=80))
def test_any_text_is_a_reference_or_refused(text: str) -> None:
    try:
        full = str(parse(text))
    except Invalid:
        return
    assert str(parse(full)) == full
    assert not set(full) & set(" \n\t\0?#%\\")


@pytest.mark.parametrize(
    ("text", "digits"), [("sha256:abc", "abc"), ("abcdef", "abcdef"), ("ab", ""), ("xyz", ""), ("a" * 65, "")]
)
def test_id_prefix_is_a_short_or_whole_digest(text: str, digits: str) -> None:
    assert id_prefix(text) == digits
