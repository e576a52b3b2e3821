"""Payloads: files from ConfigMaps, Secrets and pod fields."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.errors import Invalid, NotFound
from pykubelet.kubelet.actuate.cri_messages.config_types import DownwardContext
from pykubelet.kubelet.actuate.volumes.plan import payload
from pykubelet.kubelet.actuate.volumes.plan.payload import (
    FileProjection,
    aggregate,
    clean_payload,
    config_map_payload,
    digest,
    downward_payload,
    secret_payload,
)
from pykubelet.models import codec
from pykubelet.models.core_v1 import ConfigMap, DownwardAPIVolumeFile, KeyToPath, Secret
from tests.unit.kubelet.actuate.volumes.build import Fields, make_pod

ANNOTATIONS = {"fieldPath": "metadata.annotations"}
CONFIG = ConfigMap(data={"a": "text", "b": "ö"}, binary_data={"bin": b"\0\xff"})


def test_all_keys_of_a_config_map_with_the_default_mode() -> None:
    assert config_map_payload(CONFIG, (), 0o600, optional=False) == {
        "a": FileProjection(b"text", 0o600),
        "b": FileProjection("ö".encode(), 0o600),
        "bin": FileProjection(b"\0\xff", 0o600),
    }


def test_items_pick_rename_and_set_modes() -> None:
    items = (KeyToPath(key="a", path="x/y", mode=0o400), KeyToPath(key="bin", path="z"))
    assert config_map_payload(CONFIG, items, None, optional=False) == {
        "x/y": FileProjection(b"text", 0o400),
        "z": FileProjection(b"\0\xff", 0o644),
    }


def test_a_missing_key_is_an_error_unless_optional() -> None:
    items = (KeyToPath(key="nope", path="p"), KeyToPath(key="a", path="q"))
    with pytest.raises(NotFound, match=r"^configmap references non-existent config key: nope$"):
        config_map_payload(CONFIG, items, None, optional=False)
    assert set(config_map_payload(CONFIG, items, None, optional=True)) == {"q"}
    with pytest.raises(NotFound, match=r"^references non-existent secret key: nope$"):
        secret_payload(Secret(data={"a": b""}), items, None, optional=False)


def test_secret_payload_has_a_file_for_each_key() -> None:
    assert secret_payload(Secret(data={"k": b"v"}), (), 0o400, optional=False) == {"k": FileProjection(b"v", 0o400)}


def files(*items: Fields) -> tuple[DownwardAPIVolumeFile, ...]:
    return tuple(codec.from_builtins(item, DownwardAPIVolumeFile) for item in items)


def test_downward_payload_has_a_file_for_each_item() -> None:
    pod = make_pod(
        {"containers": [{"name": "app", "image": "i", "resources": {"limits": {"memory": "64Mi"}}}]},
        labels={"b": "2", "a": "1"},
    )
    items = files(
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "one", "fieldRef": {"fieldPath": "metadata.labels['b']"}, "mode": 0o400},
        {
            "path": "limits/memory",
            "resourceFieldRef": {"containerName": "app", "resource": "limits.memory", "divisor": "1Mi"},
        },
    )
    assert downward_payload(items, pod, None, DownwardContext()) == {
        "labels": FileProjection(b'a="1"\nb="2"', 0o644),
        "one": FileProjection(b"2", 0o400),
        "limits/memory": FileProjection(b"64", 0o644),
    }


def test_field_that_many_files_have_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be all annotations, a quarter of a megabyte; the event loop does nothing else meanwhile."""
    pod = make_pod({"containers": []}, labels={"a": "1"})
    written: list[str] = []
    write = getattr(payload, "field_value")  # noqa: B009 - the module does not export what it imports

    def counted(*given: Any) -> object:
        written.append(given[1])
        return write(*given)

    monkeypatch.setattr(payload, "field_value", counted)
    fields = ("metadata.labels", "metadata.name")
    many: list[Fields] = [
        {"path": f"{n}-{field}", "fieldRef": {"fieldPath": field}} for n in range(9) for field in fields
    ]
    items = files(*many)
    found = downward_payload(items, pod, None, DownwardContext())
    assert len(found) == 18 and found["8-metadata.labels"].data == b'a="1"'
    assert written == list(fields)


def test_downward_api_names_all_that_is_wrong() -> None:
    items = files(
        {"path": "ip", "fieldRef": {"fieldPath": "status.podIP"}},
        {"path": "cpu", "resourceFieldRef": {"containerName": "other", "resource": "limits.cpu"}},
        {"path": "none"},
    )
    with pytest.raises(Invalid) as caught:
        downward_payload(items, make_pod(), None, DownwardContext())
    assert str(caught.value) == (
        "[unsupported fieldPath: status.podIP, container other not found, "
        "file none: fieldRef or resourceFieldRef is required]"
    )


@pytest.mark.parametrize(
    ("path", "cleaned"),
    [("a", "a"), ("a/b", "a/b"), ("./a//b/", "a/b"), ("...", None), ("a/..b", "a/..b"), (".hidden", ".hidden")],
)
def test_paths_are_cleaned(path: str, cleaned: str | None) -> None:
    payload = {path: FileProjection(b"", 0)}
    if cleaned is None:
        with pytest.raises(Invalid):
            clean_payload(payload)
    else:
        assert list(clean_payload(payload)) == [cleaned]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", "must not be empty"),
        ("/etc/passwd", "must be relative path"),
        ("../x", "must not contain '..'"),
        ("a/../../x", "must not contain '..'"),
        ("..", "must not contain '..'"),
        ("..data", "not start with '..'"),
        ("./..data/x", "not start with '..'"),
        (".", "must name a file"),
        ("a\0b", "must not contain NUL"),
        ("a/" + "x" * 256, "filenames must be less than or equal to 255"),
        ("x/" * 2049, "must be less than or equal to 4096"),
    ],
)
def test_bad_paths_are_refused(path: str, why: str) -> None:
    with pytest.raises(Invalid, match=r"^invalid path: ") as caught:
        clean_payload({path: FileProjection(b"", 0)})
    assert why in str(caught.value)


@pytest.mark.parametrize(("count", "fits"), [(64, True), (65, False)])
def test_one_large_key_does_not_fill_the_disk_by_being_named_often(count: int, fits: bool) -> None:
    """A pod of 1.5 MiB could name one 60,000 times: 60 GiB, which the agent hashes, too, before it writes them."""
    config_map = ConfigMap(data={"key": "x" * (1 << 20)})
    items = [KeyToPath(key="key", path=str(number)) for number in range(count)]
    payload = config_map_payload(config_map, items, None, optional=False)
    if fits:
        assert len(clean_payload(payload)) == count
    else:
        with pytest.raises(Invalid, match="the files have more than 64 MiB together"):
            clean_payload(payload)


def test_items_cost_no_time_of_keys_that_they_do_not_name() -> None:
    """A projected volume may have 20,000 sources with an item of the same ConfigMap."""

    class Text(str):
        def encode(self, *_: object) -> bytes:
            raise AssertionError("encoded")

    config_map = ConfigMap(data={"key": "x", "large": Text("y")})
    items = [KeyToPath(key="key", path="p")]
    assert config_map_payload(config_map, items, None, optional=False)["p"].data == b"x"


def test_one_large_field_does_not_fill_the_memory_by_being_named_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """16,000 items of annotations of 256 KiB: 4 GiB."""
    monkeypatch.setattr(payload, "_MAX_BYTES", 1 << 20)
    items = tuple(each for name in "ab" for each in files({"path": name, "fieldRef": ANNOTATIONS}))
    assert len(downward_payload(items, make_pod(annotations={"a": "x" * (7 << 16)}), None, DownwardContext())) == 2
    with pytest.raises(Invalid, match="the files have more than 1 MiB together"):
        downward_payload(items, make_pod(annotations={"a": "x" * (8 << 16)}), None, DownwardContext())


def test_a_file_cannot_be_a_directory_too() -> None:
    with pytest.raises(Invalid, match="a/b cannot be a file and the directory of a/b/c"):
        clean_payload({"a/b": FileProjection(b"", 0), "a/b/c": FileProjection(b"", 0)})


@given(st.lists(st.sampled_from(["a", "b", ".", "..", "", "..x", "x.."]), max_size=5).map("/".join))
def test_cleaned_paths_stay_inside(path: str) -> None:
    try:
        cleaned = clean_payload({path: FileProjection(b"", 0)})
    except Invalid:
        return
    (name,) = cleaned
    parts = name.split("/")
    assert parts and not name.startswith("..")
    assert not {"", ".", ".."} & set(parts)


BASE = {"a": FileProjection(b"1", 0o644), "b": FileProjection(b"2", 0o644)}


@pytest.mark.parametrize(
    "other",
    [
        {"a": FileProjection(b"1", 0o644)},
        {"a": FileProjection(b"2", 0o644), "b": FileProjection(b"1", 0o644)},
        {"a": FileProjection(b"1", 0o600), "b": FileProjection(b"2", 0o644)},
        {"a": FileProjection(b"1", 0o644, uid=0), "b": FileProjection(b"2", 0o644)},
        {"a": FileProjection(b"12", 0o644), "b": FileProjection(b"", 0o644)},
        {"c": FileProjection(b"1", 0o644), "b": FileProjection(b"2", 0o644)},
    ],
)
def test_digests_tell_payloads_apart(other: dict[str, FileProjection]) -> None:
    assert digest(other, None) != digest(BASE, None)


def test_digests_do_not_depend_on_order_but_on_the_group() -> None:
    assert digest(dict(reversed(BASE.items())), None) == digest(BASE, None)
    assert digest(BASE, 5) != digest(BASE, None)


def test_aggregate_lists_each_error_once() -> None:
    assert aggregate(["a"]) == "a"
    assert aggregate(["a", "b", "a"]) == "[a, b]"
