"""From text to value trees: limits, syntax errors with places, YAML's special features, JSON."""

import pytest

from pykubelet.kubelet.desired.manifest.manifest_types import MAX_BYTES, MAX_NODES, Problem, Report
from pykubelet.kubelet.desired.manifest.tree import (
    ListNode,
    ManifestDocument,
    MapNode,
    Node,
    ScalarNode,
    read_documents,
)


def read(text: str | bytes) -> tuple[list[ManifestDocument], list[Problem]]:
    report = Report("f.yaml")
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return read_documents(data, report), report.problems


def plain(node: Node) -> object:
    """The tree without places, for comparison."""
    match node:
        case MapNode():
            return {key: plain(value) for key, (_, value) in node.entries.items()}
        case ListNode():
            return [plain(item) for item in node.items]
        case ScalarNode():
            return node.text


@pytest.mark.parametrize(
    ("text", "trees"),
    [
        ("", []),
        ("# only a comment\n", []),
        ("---\n---\n...\n", []),
        ("a: 1", [{"a": "1"}]),
        ("\ufeffa: 1", [{"a": "1"}]),
        ("%YAML 1.1\n---\na: 1", [{"a": "1"}]),
        ("a: [x, 'y', \"z\"]\n---\nb: {c: d}\n---\n", [{"a": ["x", "y", "z"]}, {"b": {"c": "d"}}]),
        ("a: &x [1, 2]\nb: *x", [{"a": ["1", "2"], "b": ["1", "2"]}]),
        ("a: &x {p: 1, q: 2}\nb: {<<: *x, q: 3}", [{"a": {"p": "1", "q": "2"}, "b": {"q": "3", "p": "1"}}]),
        ("b: {<<: [{p: 1}, {p: 2, q: 2}]}", [{"b": {"p": "1", "q": "2"}}]),
        ('"<<": x', [{"<<": "x"}]),
        ("a: |\n  one\n  two\n", [{"a": "one\ntwo\n"}]),
        ('{"a": {"b": [1, true, null]}}', [{"a": {"b": ["1", "true", "null"]}}]),
        ('{"a":\t1,\n\t"b":2}', [{"a": "1", "b": "2"}]),
        # Only Python's own JSON reader understands surrogate escapes.
        ('{"a": "\\ud83d\\ude00", "b": [1, 2.5, true, null]}', [{"a": "😀", "b": ["1", "2.5", "true", "null"]}]),
    ],
)
def test_good_texts_become_trees_without_problems(text: str, trees: list[object]) -> None:
    documents, problems = read(text)
    assert [plain(document.root) for document in documents] == trees
    assert problems == []


def test_positions_are_those_of_the_file() -> None:
    documents, _ = read("# head\na:\n  - b: 1\n    c: 'x'\n---\nd: 2\n")
    assert [document.index for document in documents] == [1, 2]
    root = documents[0].root
    assert isinstance(root, MapNode)
    key, items = root.entries["a"]
    assert (key.line, key.column) == (2, 1)
    assert isinstance(items, ListNode)
    inner = items.items[0]
    assert isinstance(inner, MapNode)
    assert [(key.line, key.column) for key, _ in inner.entries.values()] == [(3, 5), (4, 5)]


@pytest.mark.parametrize(
    ("text", "line", "message", "remedy"),
    [
        (b"a: \xff", 1, "is not UTF-8", "save it as UTF-8"),
        (b"a: 1\nb: \x00", 2, "control character U+0000", "binary"),
        ("a: 1\nb: x\x07", 2, "control character U+0007", "binary"),
        ("a: 1\n\tb: 2", 2, "not valid YAML", "spaces, not with tabs"),
        ("a: b: c", 1, "mapping values are not allowed", "quote values"),
        ("a: 'abc", 1, "unexpected end of stream", "not closed"),
        ("a: [1, 2", 2, "flow sequence begun on line 1", "not closed"),
        ("a: @x", 1, "cannot start any token", "quote"),
        ("a: 1\nb\n", 3, "simple key begun on line 2, could not find expected ':'", "followed by ': '"),
        ("a: *x", 1, "alias *x has no anchor", "write the value out"),
        ("a: &a [*a]", 1, "alias *a contains itself", "write the value out"),
        ("a: &a {<<: *a}", 1, "contains itself", "write the value out"),
        ("a: {<<: 5}", 1, "merge key", "write the fields out"),
        ("? [x]\n: y", 1, "a key must be text", "quote it"),
        ("a: 1\nb: 2\na: 3", 3, "'a' is given twice, first on line 1", "take one away"),
        ('{"a": "\\ud83d\\ude00", "b": 1, "b": 2}', 0, "'b' is given twice", "take one away"),
        ('{"a": "\\ud83d", "b": }', 1, "not valid YAML", ""),
    ],
)
def test_problems_have_position_and_remedy(text: str | bytes, line: int, message: str, remedy: str) -> None:
    _, problems = read(text)
    assert problems, "nothing was reported"
    assert problems[0].line == line
    assert message in problems[0].message
    assert remedy in problems[0].remedy


def test_documents_before_a_syntax_error_are_kept() -> None:
    documents, problems = read("a: 1\n---\nb: 2\n---\nc: [")
    assert [plain(document.root) for document in documents] == [{"a": "1"}, {"b": "2"}]
    assert [problem.document for problem in problems] == [3]


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? ", "a: [", '{"a":[', "&x [", "!!seq [", "[{", "? [? {"])
def test_deep_nesting_is_refused_at_once(opening: str) -> None:
    documents, problems = read(opening * 100_000)
    assert documents == []
    assert problems[-1].message in ("is nested more than 64 levels deep",) or "not valid YAML" in problems[-1].message


def test_deep_nesting_in_real_json_is_refused() -> None:
    for depth in (70, 50_000):
        _, problems = read('{"a":"\\ud83d\\ude00","b":' + "[" * depth + "]" * depth + "}")
        assert len(problems) == 1


def test_many_values_are_refused() -> None:
    _, problems = read("a: [" + "1," * (MAX_NODES + 10) + "]")
    assert f"more than {MAX_NODES} values" in problems[0].message


def test_merge_bombs_are_refused() -> None:
    wide = ", ".join(f"k{i}: 1" for i in range(1000))
    _, problems = read(f"a: &a {{{wide}}}\n" + "".join(f"b{i}: {{<<: *a}}\n" for i in range(300)))
    assert f"more than {MAX_NODES} values" in problems[0].message


def test_large_files_are_refused_unread() -> None:
    _, problems = read(b"a" * (MAX_BYTES + 1))
    assert [problem.message for problem in problems] == ["is larger than 10 MiB"]
    documents, problems = read(b"a: " + b"b" * (MAX_BYTES - 3))
    assert len(documents) == 1
    assert problems == []
