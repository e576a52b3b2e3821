"""Changes of the manifest directory: what is written, and what is refused with nothing written."""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykubelet.base.errors import Conflict, NotFound, Permanent, Transient
from pykubelet.base.files.atomic import write_atomic
from pykubelet.kubelet.desired.changes import Change, ManifestDirectory, manifest_directory
from pykubelet.kubelet.desired.manifest import ManifestObject, ObjectKey, parse

A = ObjectKey("Pod", "default", "a")


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[ManifestDirectory]:
    made = ManifestDirectory(path=tmp_path / "m", node_name="n1", kept={})
    with made.locked():
        yield made


def _pod(name: str, image: str = "one") -> str:
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: a, image: {image}}}]}}\n"
    )


def _map(value: str, namespace: str = "default") -> str:
    meta = f"{{name: c, namespace: {namespace}}}"
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {meta}\ndata: {{k: {value}}}\nimmutable: true\n"


def _item(text: str) -> ManifestObject:
    manifest = parse(text.encode(), "given")
    assert not manifest.problems
    return manifest.objects[0]


def _apply(directory: ManifestDirectory, text: str) -> Change:
    return directory.apply(_item(text), text).change


def _content(directory: ManifestDirectory) -> dict[str, str]:
    return {path.name: path.read_text() for path in directory.path.iterdir()}


def test_apply_creates_configures_and_leaves_unchanged(directory: ManifestDirectory) -> None:
    assert _apply(directory, _pod("a")) is Change.CREATED
    assert _content(directory) == {"a.yaml": _pod("a")}
    assert (directory.path / "a.yaml").stat().st_mode & 0o777 == 0o600
    assert _apply(directory, "# a comment changes nothing\n" + _pod("a")) is Change.UNCHANGED
    assert _apply(directory, _pod("a", "two")) is Change.CONFIGURED
    assert _content(directory) == {"a.yaml": _pod("a", "two")}


def test_apply_changes_the_file_that_holds_the_object(directory: ManifestDirectory) -> None:
    file = directory.path / "users.yml"
    file.write_text(f"{_pod('b')}---\n{_pod('a')}")
    file.chmod(0o640)
    assert _apply(directory, _pod("a", "two")) is Change.CONFIGURED
    assert _content(directory) == {"users.yml": f"{_pod('b')}---\n{_pod('a', 'two')}"}
    assert file.stat().st_mode & 0o777 == 0o640


def test_apply_repairs_an_object_with_a_problem_in_its_place(directory: ManifestDirectory) -> None:
    (directory.path / "users.yml").write_text(_pod("a").replace("image", "imagee"))
    assert _apply(directory, _pod("a")) is Change.CONFIGURED
    assert _content(directory) == {"users.yml": _pod("a")}


def test_new_objects_get_names_that_tell_them_apart(directory: ManifestDirectory) -> None:
    (directory.path / "a.yaml").write_text(_pod("other"))
    for text in (_pod("a"), _map("one"), _map("one", "apart")):
        assert _apply(directory, text) is Change.CREATED
    assert _content(directory).keys() == {"a.yaml", "a.2.yaml", "c.configmap.yaml", "apart.c.configmap.yaml"}


def test_objects_with_the_longest_names_get_files_of_their_own(directory: ManifestDirectory) -> None:
    for text in (_pod("a" * 253), _pod("a" * 252 + "b"), _map("v").replace("name: c", f"name: {'a' * 253}")):
        assert _apply(directory, text) is Change.CREATED
        assert _apply(directory, text) is Change.UNCHANGED
    assert len(_content(directory)) == 3


def test_name_that_no_file_can_have_names_object_and_field(directory: ManifestDirectory) -> None:
    key = ObjectKey("Pod", "default", "..\x1b")
    with pytest.raises(Conflict, match=r"Pod default/\.\.\\x1b: its metadata\.name"):
        directory._new_file(key)


def test_single_file_as_manifest_path_gets_another_document(tmp_path: Path) -> None:
    file = tmp_path / "pods.yaml"
    file.write_text(_pod("b"))
    single = ManifestDirectory(path=file, node_name="n1", kept={})
    with single.locked():
        assert _apply(single, _pod("a")) is Change.CREATED
        assert [pod.metadata.name for pod in parse(file.read_bytes(), "f").pods] == ["b", "a"]
        single.remove(A)
    assert [pod.metadata.name for pod in parse(file.read_bytes(), "f").pods] == ["b"]


def test_single_file_that_is_a_link_is_neither_replaced_nor_written_through(tmp_path: Path) -> None:
    target, link = tmp_path / "kept.yaml", tmp_path / "pods.yaml"
    target.write_text(_pod("b"))
    link.symlink_to(target)
    single = ManifestDirectory(path=link, node_name="n1", kept={})
    with single.locked(), pytest.raises(Conflict, match="symbolic link"):
        _apply(single, _pod("a"))
    assert link.is_symlink()
    assert target.read_text() == _pod("b")


def test_single_file_that_is_not_text_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "pods.yaml"
    file.write_bytes(b"a: \xff\n")
    single = ManifestDirectory(path=file, node_name="n1", kept={})
    with single.locked(), pytest.raises(Conflict, match="not UTF-8 text"):
        _apply(single, _pod("a"))
    assert file.read_bytes() == b"a: \xff\n"


def test_directory_that_another_process_keeps_locked_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest_directory, "_LOCK_SECONDS", 0.1)
    made = ManifestDirectory(path=tmp_path, node_name="n1", kept={})
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)
        with pytest.raises(Transient, match="locked by another process"), made.locked():
            pass
    finally:
        os.close(fd)
    with made.locked():
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_replaced_file_keeps_its_owner_and_nothing_else_gets_it(
    directory: ManifestDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, precious = directory.path / "a.yaml", tmp_path / "precious"
    file.write_text(_pod("a"))
    os.chown(file, 12345, 12345)
    _apply(directory, _pod("a", "two"))
    assert (file.stat().st_uid, file.stat().st_gid) == (12345, 12345)
    precious.touch()

    def write_and_swap(path: Path, *args: Any, **kwargs: Any) -> None:
        write_atomic(path, *args, **kwargs)
        path.unlink()
        path.symlink_to(precious)

    monkeypatch.setattr(manifest_directory, "write_atomic", write_and_swap)
    _apply(directory, _pod("a", "three"))
    assert precious.stat().st_uid == 0


def test_immutable_object_is_not_changed(directory: ManifestDirectory) -> None:
    _apply(directory, _map("one"))
    with pytest.raises(Conflict, match="delete it first"):
        _apply(directory, _map("two"))
    assert _content(directory) == {"c.configmap.yaml": _map("one")}


def test_object_of_a_broken_file_is_not_created_a_second_time(tmp_path: Path) -> None:
    (tmp_path / "users.yml").write_text("{")
    broken = ManifestDirectory(path=tmp_path, node_name="n1", kept={str(A): str(tmp_path / "users.yml")})
    with pytest.raises(Conflict, match="repair or remove it first"):
        _apply(broken, _pod("a"))
    assert _content(broken) == {"users.yml": "{"}


@pytest.mark.parametrize("first", [_pod("a"), _pod("a").replace("image", "imagee")])
def test_object_before_a_syntax_error_is_not_created_a_second_time(directory: ManifestDirectory, first: str) -> None:
    text = f"{first}---\nx: {{\n"
    (directory.path / "users.yml").write_text(text)
    with pytest.raises(Conflict, match=r"users\.yml, which defined Pod default/a, is broken: repair"):
        _apply(directory, _pod("a"))
    with pytest.raises(Conflict, match="repair or remove it first"):
        directory.remove(A)
    assert _content(directory) == {"users.yml": text}


def test_object_of_a_good_file_is_changed_if_a_broken_one_has_no_valid_version(directory: ManifestDirectory) -> None:
    (directory.path / "a.yml").write_text(f"{_pod('a').replace('image', 'imagee')}---\nx: {{\n")
    (directory.path / "b.yml").write_text(_pod("a"))
    assert _apply(directory, _pod("a", "two")) is Change.CONFIGURED
    assert _content(directory)["b.yml"] == _pod("a", "two")


def test_object_that_a_broken_file_keeps_in_force_is_not_changed_in_a_later_one(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text("# a\n{")
    (tmp_path / "b.yml").write_text(_pod("a"))
    broken = ManifestDirectory(path=tmp_path, node_name="n1", kept={str(A): str(tmp_path / "a.yml")})
    with pytest.raises(Conflict, match=r"a\.yml, which defined"):
        _apply(broken, _pod("a", "two"))


BLOCK = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  # a comment\n  k: |\n    one"
"""A manifest whose last value changes with another end of the line."""


@pytest.mark.parametrize("start", ["", f"{_pod('b')}---\n"])
def test_added_object_does_not_change_the_last_one_of_the_file(tmp_path: Path, start: str) -> None:
    file = tmp_path / "pods.yaml"
    file.write_text(start + BLOCK)
    before = {each.key: each.digest for each in parse(file.read_bytes(), "f").objects}
    single = ManifestDirectory(path=file, node_name="n1", kept={})
    with single.locked():
        assert _apply(single, _pod("a")) is Change.CREATED
    after = {each.key: each.digest for each in parse(file.read_bytes(), "f").objects}
    assert before.items() < after.items()
    assert A in after


def test_replaced_object_in_front_of_another_keeps_its_value(directory: ManifestDirectory) -> None:
    old = BLOCK.replace("one", "two\n")
    for text in (f"{old}---\n{_pod('b')}", f"{_pod('b')}---\n{old}"):
        (directory.path / "users.yml").write_text(text)
        assert _apply(directory, BLOCK) is Change.CONFIGURED
        assert _apply(directory, BLOCK) is Change.UNCHANGED
        objects = parse(_content(directory)["users.yml"].encode(), "f").objects
        assert {each.digest for each in objects} == {_item(BLOCK).digest, _item(_pod("b")).digest}


@pytest.mark.parametrize("name", ["later.yaml", "later.json"])
def test_single_file_that_does_not_exist_yet_is_created(tmp_path: Path, name: str) -> None:
    single = ManifestDirectory(path=tmp_path / "new" / name, node_name="n1", kept={})
    with single.locked():
        assert _apply(single, _pod("a")) is Change.CREATED
        assert _apply(single, _pod("b")) is Change.CREATED
    assert single.path.is_file()
    assert [pod.metadata.name for pod in parse(single.path.read_bytes(), "f").pods] == ["a", "b"]


def test_broken_file_of_others_does_not_hinder(directory: ManifestDirectory) -> None:
    (directory.path / "users.yml").write_text("{ a \\")
    (directory.path / "a-directory.yaml").mkdir()
    assert _apply(directory, _pod("a")) is Change.CREATED


def test_symbolic_link_is_not_written_through(directory: ManifestDirectory, tmp_path: Path) -> None:
    target = tmp_path / "outside.yaml"
    target.write_text(_pod("a"))
    (directory.path / "a.yaml").symlink_to(target)
    for write in (True, False):
        with pytest.raises(Conflict, match="symbolic link"):
            directory.apply(_item(_pod("a", "two")), _pod("a", "two"), write=write)
    assert target.read_text() == _pod("a")
    directory.remove(A)
    assert target.read_text() == _pod("a")
    assert not _content(directory)


def test_remove_takes_the_file_or_the_document(directory: ManifestDirectory) -> None:
    (directory.path / "both.yaml").write_text(f"{_pod('a')}---\n{_pod('b')}")
    directory.remove(A)
    assert [pod.metadata.name for pod in parse(_content(directory)["both.yaml"].encode(), "f").pods] == ["b"]
    directory.remove(ObjectKey("Pod", "default", "b"))
    assert not _content(directory)
    with pytest.raises(NotFound, match="Pod default/a is in no file"):
        directory.remove(A)


def test_failed_write_leaves_the_old_version(directory: ManifestDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    _apply(directory, _pod("a"))

    def fail(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(manifest_directory, "write_atomic", fail)
    with pytest.raises(Permanent, match=r"a\.yaml cannot be written: Read-only file system; are you root"):
        _apply(directory, _pod("a", "two"))
    assert _content(directory) == {"a.yaml": _pod("a")}


def test_names_with_escapes_are_found(directory: ManifestDirectory) -> None:
    (directory.path / "users.yml").write_text(_pod('"\\x61"'))
    found = directory.find(A)
    assert found is not None
    assert found.path.name == "users.yml"
