"""Objects of a manifest's text get a namespace, or the text is refused: never is another object meant."""

import pytest

from pykubelet.base.errors import Conflict, Invalid
from pykubelet.kubelet.desired.manifest import parse
from pykubelet.kubelet.desired.manifest.edit import places
from pykubelet.kubelet.desired.manifest.namespaces import with_namespace

FACE = '"\\ud83d\\ude00"'
"""A string of JSON that YAML cannot read."""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "kind: Pod\nmetadata:\n  # the name\n  name: a\nspec: {}\n",
            'kind: Pod\nmetadata:\n  # the name\n  namespace: "x"\n  name: a\nspec: {}\n',
        ),
        ('{"kind": "Pod", "metadata": {"name": "a"}}', '{"kind": "Pod", "metadata": {"namespace": "x", "name": "a"}}'),
        ("kind: Pod\nmetadata: {name: a, namespace: x}\n", "kind: Pod\nmetadata: {name: a, namespace: x}\n"),
        (
            "kind: Pod\nmetadata:\n  name: a\n  namespace:\nspec: {}\n",
            'kind: Pod\nmetadata:\n  name: a\n  namespace: "x"\nspec: {}\n',
        ),
        (
            "kind: Secret\nmetadata: {name: a}\n---\nkind: Pod\nmetadata: {name: ä}\n---\n",
            'kind: Secret\nmetadata: {"namespace": "x", name: a}\n---\n'
            'kind: Pod\nmetadata: {"namespace": "x", name: ä}\n---\n',
        ),
        (
            "kind: List\nitems:\n- kind: Pod\n  metadata: {name: a}\n- metadata:\n    name: b\n",
            'kind: List\nitems:\n- kind: Pod\n  metadata: {"namespace": "x", name: a}\n'
            '- metadata:\n    namespace: "x"\n    name: b\n',
        ),
        ("kind: Pod\nmetadata: [\n", "kind: Pod\nmetadata: [\n"),
        ("kind: Pod\nmetadata:\n", "kind: Pod\nmetadata:\n"),
        ("- a\n", "- a\n"),
        ("", ""),
    ],
)
def test_namespace_is_written_into_manifests_without_one(text: str, expected: str) -> None:
    assert with_namespace(text.encode(), "x", "m.yaml").decode() == expected


def test_with_namespace_refuses_an_object_of_another_one() -> None:
    with pytest.raises(Conflict, match=r"m\.yaml: a has the namespace y, not x"):
        with_namespace(b"kind: Pod\nmetadata: {name: a, namespace: y}\n", "x", "m.yaml")


def test_with_namespace_leaves_what_is_no_utf8_text() -> None:
    assert with_namespace(b"\xff\xfe", "x", "m.yaml") == b"\xff\xfe"


@pytest.mark.parametrize("text", ["a: " + "[" * 29_000, "[" * 29_000, "{a: " * 29_000, "- " * 29_000])
def test_with_namespace_leaves_deeply_nested_text_to_the_parser(text: str) -> None:
    assert with_namespace(text.encode(), "x", "m.yaml") == text.encode()
    assert parse(text.encode(), "m.yaml").problems


def _json(metadata: str) -> str:
    return f'{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {metadata}, "data": {{"k": {FACE}, "n": 1.50}}}}'


@pytest.mark.parametrize(
    "metadata", ['{"name": "c"}', '{"name": "c", "namespace": null}', '{"namespace":"","name":"c"}']
)
def test_with_namespace_edits_json_that_yaml_refuses(metadata: str) -> None:
    for text in (_json(metadata), f'{{"kind": "List", "apiVersion": "v1", "items": [{_json(metadata)}]}}'):
        edited = with_namespace(text.encode(), "x", "m.json")
        assert [str(place.key) for place in places(edited, "m.json")] == ["ConfigMap x/c"]
        assert FACE in edited.decode() and "1.50" in edited.decode()


def test_with_namespace_refuses_another_one_in_json_that_yaml_refuses() -> None:
    text = _json('{"name": "c", "namespace": "y"}')
    assert with_namespace(text.encode(), "y", "m.json")
    with pytest.raises(Conflict, match=r"m\.json: c has the namespace y, not x"):
        with_namespace(text.encode(), "x", "m.json")


def test_with_namespace_refuses_json_that_it_cannot_write_again() -> None:
    text = _json('{"name": "c"}').replace("1.50", "NaN")
    with pytest.raises(Invalid, match="cannot be put into the text"):
        with_namespace(text.encode(), "x", "m.json")


def test_with_namespace_sees_the_namespace_of_a_merge_key() -> None:
    text = b"a: &m {name: c, namespace: y}\nkind: ConfigMap\nmetadata: {<<: *m}\n"
    with pytest.raises(Conflict, match="c has the namespace y, not x"):
        with_namespace(text, "x", "m.yaml")


def test_with_namespace_refuses_an_object_whose_metadata_it_does_not_find() -> None:
    text = b"a: &m {metadata: {name: c}}\nkind: ConfigMap\n<<: *m\n"
    with pytest.raises(Invalid, match="the namespace x cannot be put into the text of c"):
        with_namespace(text, "x", "m.yaml")


def test_with_namespace_does_not_skip_a_text_that_the_composer_refuses() -> None:
    text = b"a: &m 1\nb: &m 2\nkind: ConfigMap\nmetadata: {name: c}\n"
    with pytest.raises(Invalid, match="cannot be put into the text"):
        with_namespace(text, "x", "m.yaml")
