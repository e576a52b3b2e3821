"""Objects are replaced, added and removed in the text of a manifest, and everything else in it stays."""

import json

import pytest

from pykubelet.base.errors import Conflict, Invalid
from pykubelet.kubelet.desired.manifest import ObjectKey, parse
from pykubelet.kubelet.desired.manifest.edit import (
    ObjectPlace,
    object_text,
    places,
    with_added,
    with_object,
    without_object,
)

POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  # a comment
  containers: [{{name: a, image: {image}}}]
"""


def _pod(name: str, image: str = "one") -> str:
    return POD.format(name=name, image=image)


def _place(data: str, name: str) -> ObjectPlace:
    return next(place for place in places(data.encode(), "f") if place.key.name == name)


def _image(data: bytes, name: str) -> str:
    pods = {pod.metadata.name: pod for pod in parse(data, "f").pods}
    return pods[name].spec.containers[0].image


TWO = f"# head\n---\n{_pod('a')}# between\n---  # mark\n{_pod('b')}...\n"
LIST = """\
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: a, image: one}]}}
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: c, namespace: ns}
  data:
    text: |
      two
      lines: "yes"
"""


def test_places_of_documents_and_lists() -> None:
    found = places(f"{_pod('x')}---\n# nothing\n---\n{LIST}".encode(), "f")
    assert [(p.key, p.document, p.item) for p in found] == [
        (ObjectKey("Pod", "default", "x"), 1, None),
        (ObjectKey("Pod", "default", "a"), 3, 0),
        (ObjectKey("ConfigMap", "ns", "c"), 3, 1),
    ]


def test_places_in_a_broken_text_are_refused() -> None:
    with pytest.raises(Invalid, match="not valid YAML"):
        places(f"{_pod('x')}---\n{{".encode(), "f")


def test_places_of_an_object_with_problems() -> None:
    assert _place(_pod("a").replace("image", "imagee"), "a").document == 1


@pytest.mark.parametrize("name", ["a", "b"])
def test_replaced_document_leaves_the_other_and_comments(name: str) -> None:
    other = {"a": "b", "b": "a"}[name]
    after = with_object(TWO.encode(), _place(TWO, name), _pod(name, "new"), "f")
    assert not parse(after, "f").problems
    assert (_image(after, name), _image(after, other)) == ("new", "one")
    assert after.startswith(b"# head\n")


def test_replaced_only_document() -> None:
    after = with_object(_pod("a").encode(), _place(_pod("a"), "a"), _pod("a", "new"), "f")
    assert after == _pod("a", "new").encode()


@pytest.mark.parametrize("name", ["a", "b"])
def test_removed_document_leaves_the_other(name: str) -> None:
    other = {"a": "b", "b": "a"}[name]
    after = without_object(TWO.encode(), _place(TWO, name), "f")
    assert after is not None
    assert [pod.metadata.name for pod in parse(after, "f").pods] == [other]
    assert not parse(after, "f").problems


def test_removed_last_object_leaves_nothing() -> None:
    assert without_object(_pod("a").encode(), _place(_pod("a"), "a"), "f") is None
    single = "apiVersion: v1\nkind: List\nitems:\n- {kind: Pod, metadata: {name: a}}\n"
    assert without_object(single.encode(), _place(single, "a"), "f") is None


def test_removed_object_keeps_a_document_that_is_not_recognized() -> None:
    text = f"{_pod('a')}---\nkind: Unfinished\n"
    after = without_object(text.encode(), _place(text, "a"), "f")
    assert after is not None
    assert b"Unfinished" in after


def test_item_of_a_list_is_replaced_and_removed() -> None:
    after = with_object(LIST.encode(), _place(LIST, "a"), _pod("a", "new"), "f")
    assert _image(after, "a") == "new"
    config = parse(after, "f").objects[1].value
    assert config == parse(LIST.encode(), "f").objects[1].value
    left = without_object(LIST.encode(), _place(LIST, "a"), "f")
    assert left is not None
    assert [str(item.key) for item in parse(left, "f").objects] == ["ConfigMap ns/c"]


def test_text_of_an_item_of_a_typed_list_has_its_kind() -> None:
    text = json.dumps(
        {"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}, "spec": {"containers": []}}]}
    )
    item = object_text(text.encode(), _place(text, "a"), "f")
    assert places(item.encode(), "f")[0].key == ObjectKey("Pod", "default", "a")


@pytest.mark.parametrize("name", ["a", "b"])
def test_text_of_a_document_parses_alone(name: str) -> None:
    text = object_text(TWO.encode(), _place(TWO, name), "f")
    assert parse(text.encode(), "f").objects[0].digest == parse(_pod(name).encode(), "f").objects[0].digest
    assert "# a comment" in text


def test_object_on_the_line_of_the_document_mark_is_found() -> None:
    text = "--- {kind: Pod, metadata: {name: a}}\n--- {kind: Pod, metadata: {name: b}}\n"
    assert [object_text(text.encode(), _place(text, name), "f").strip() for name in "ab"] == [
        "{kind: Pod, metadata: {name: a}}",
        "{kind: Pod, metadata: {name: b}}",
    ]


def test_text_with_unusual_characters_is_cut_at_the_right_place() -> None:
    first = _pod("a").replace(
        "{name: a}", '{name: a, annotations: {x: "Gr\u00fc\u00dfe \u2028 \U0001f600 \x85 end"}}', 1
    )
    text = f"\ufeff{first}---\r\n{_pod('b')}"
    after = with_object(text.encode(), _place(text, "b"), _pod("b", "new"), "f")
    assert (_image(after, "a"), _image(after, "b")) == ("one", "new")


def test_json_that_yaml_refuses_is_replaced_as_a_whole() -> None:
    text = json.dumps({"kind": "Pod", "metadata": {"name": "a", "annotations": {"x": "\U0001f600"}}}, indent="\t")
    assert with_object(text.encode(), _place(text, "a"), _pod("a"), "f") == _pod("a").encode()


def test_added_object_is_a_document_of_its_own() -> None:
    assert with_added(b"", _pod("a"), "f") == _pod("a").encode()
    after = with_added(_pod("a").rstrip().encode(), _pod("b"), "f")
    assert [pod.metadata.name for pod in parse(after, "f").pods] == ["a", "b"]


def test_yaml_directives_are_left_to_people() -> None:
    text = f"%YAML 1.1\n---\n{_pod('a')}---\n{_pod('b')}"
    with pytest.raises(Conflict, match="by hand"):
        with_object(text.encode(), _place(text, "b"), _pod("b"), "f")
