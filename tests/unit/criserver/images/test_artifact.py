"""The files of an artifact: names that a publisher may choose, and those that are refused."""

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.errors import Invalid
from pykubelet.criserver.images.manifests import Descriptor
from pykubelet.criserver.images.plan.artifact import files_of

_TITLE = "org.opencontainers.image.title"


def _blob(number: int, **annotations: str) -> Descriptor:
    return Descriptor(f"sha256:{number:064x}", number, "application/x", annotations=annotations or None)


def _named(*names: str) -> list[Descriptor]:
    return [_blob(number, **{_TITLE: name}) for number, name in enumerate(names)]


def test_files_are_named_by_title_then_model_path_then_digest() -> None:
    blobs = [
        _blob(1, **{_TITLE: "notes.txt", "org.cncf.model.filepath": "other"}),
        _blob(2, **{"org.cncf.model.filepath": "weights/model-1.bin"}),
        _blob(3, **{"org.cnai.model.filepath": "weights/model-2.bin", _TITLE: ""}),
        _blob(4),
    ]
    files = files_of(blobs, "x")
    assert [each.file for each in files] == [
        "notes.txt",
        "weights/model-1.bin",
        "weights/model-2.bin",
        f"sha256-{4:064x}",
    ]
    assert [each.diff_id for each in files] == [each.digest for each in blobs]


def test_equal_files_of_two_artifacts_are_one_layer() -> None:
    """The chain id depends on name and content alone, so that a new version unpacks only what has changed."""
    one, two = files_of(_named("a", "b"), "x"), files_of([_blob(7, **{_TITLE: "new"}), *_named("a", "c")[:1]], "y")
    assert one[0].chain_id == two[1].chain_id
    assert len({each.chain_id for each in (*one, *two)}) == 3


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("../x", "must not have"),
        ("a/../../x", "must not have"),
        ("/etc/passwd", "must be relative"),
        ("a//b", "empty components"),
        ("a/", "empty components"),
        (".", "must not have"),
        ("a\0b", "control character"),
        ("a\nb", "control character"),
        ("\x7f", "control character"),
        ("\ud800", "not valid Unicode"),
        ("n" * 256, "too long"),
        ("é" * 128, "too long"),
        ("/".join(["n" * 200] * 6), "too long"),
        ("/".join("a" * 33), "33 components"),
    ],
)
def test_names_that_are_no_files_of_a_volume_are_refused(name: str, why: str) -> None:
    with pytest.raises(Invalid, match=why) as refused:
        files_of(_named("good", name), "image r.example/a:1")
    said = str(refused.value)
    assert "r.example/a:1" in said and f"sha256:{1:064x}" in said, "it names image and blob"
    assert len(said) < 500 and said.isprintable(), "and is fit for a log"


@pytest.mark.parametrize("names", [("a", "a"), ("a", "a/b"), ("a/b", "a"), ("a/b/c", "x", "a/b")])
def test_names_that_collide_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(Invalid, match="collides with that of blob"):
        files_of(_named(*names), "x")


def test_files_side_by_side_in_one_directory_do_not_collide() -> None:
    assert len(files_of(_named("a/b", "a/c", "a/d/e", "a.b"), "x")) == 4


_PARTS = st.sampled_from(["..", ".", "", "a", "b", "A", "\0", "é", "\ud800", "n" * 255, "n" * 256, "\n", ".wh.a"])


@given(st.lists(st.lists(_PARTS, min_size=1, max_size=5).map("/".join), min_size=1, max_size=6))
def test_accepted_names_are_different_files_inside_the_volume(names: list[str]) -> None:
    try:
        files = [each.file for each in files_of(_named(*names), "x")]
    except Invalid:
        return
    assert len(set(files)) == len(names)
    for each in files:
        assert posixpath.normpath(f"/volume/{each}") == f"/volume/{each}" and "\0" not in each
        assert not any(other.startswith(f"{each}/") for other in files), "no file is a directory of another"
