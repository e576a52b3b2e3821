"""Patterns of Go's ``path.Match``; how they match annotations is tested with the runtime server's specifications."""

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.base.files.path_pattern import path_pattern


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("a.example/*", "a.example/b", True),
        ("a.example/*", "a.example/b/c", False),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("[a-c]x", "bx", True),
        ("[^a-c]x", "bx", False),
        ("[^a-c]x", "dx", True),
        ("a\\*", "a*", True),
        ("a\\*", "ab", False),
        ("a.c", "abc", False),
    ],
)
def test_pattern_matches_within_one_path_component(pattern: str, text: str, matches: bool) -> None:
    assert (path_pattern(pattern).fullmatch(text) is not None) == matches


@pytest.mark.parametrize("pattern", ["[", "a\\", "[]", "[z-a]", "x["])
def test_malformed_patterns_are_rejected(pattern: str) -> None:
    with pytest.raises(Invalid, match="malformed"):
        path_pattern(pattern)
