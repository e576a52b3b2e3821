"""Reading a directory of manifests, and copies of the last good ones."""

import os
from pathlib import Path

import pytest

from pykubelet.base.errors import Transient
from pykubelet.base.files.regular_file import is_plain_name
from pykubelet.kubelet.desired.manifest_file import read_manifest
from pykubelet.kubelet.desired.sources import disk
from pykubelet.kubelet.desired.sources.backup import Backup
from pykubelet.kubelet.desired.sources.disk import read_changed
from pykubelet.kubelet.desired.sources.plan.effective_manifests import assemble
from pykubelet.kubelet.desired.sources.source_types import FileRecord
from pykubelet.kubelet.types.updates import Source
from tests.unit.kubelet.desired.sources.samples import images, pod


def names(records: dict[str, FileRecord]) -> dict[str, list[str]]:
    return {name: [item.key.name for item in record.wanted] for name, record in records.items()}


def scan(path: Path, known: dict[str, FileRecord] | None = None, busy: set[str] | None = None) -> dict[str, FileRecord]:
    return read_changed(path, known or {}, frozenset(busy or ()), None)


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("a.yaml", True),
        ("a", True),
        ("a.json", True),
        (".a.yaml.swp", False),
        ("a.yaml~", False),
        ("#a#", False),
        ("..data", False),
    ],
)
def test_manifest_file_names(name: str, counts: bool) -> None:
    assert is_plain_name(name) == counts


def test_scan_reads_manifests_and_skips_hidden_and_backup_files(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text(pod("b"))
    (tmp_path / "a.yaml").write_text(pod("a"))
    (tmp_path / ".hidden").write_text(pod("h"))
    (tmp_path / "old~").write_text(pod("o"))
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "c.yaml").write_text(pod("c"))
    assert names(scan(tmp_path)) == {"a.yaml": ["a"], "b.yaml": ["b"]}
    assert scan(tmp_path)["a.yaml"].manifest.origin == str(tmp_path / "a.yaml")


def test_single_file_is_read_also_if_it_is_hidden(tmp_path: Path) -> None:
    file = tmp_path / ".hidden.yaml"
    file.write_text(pod("a"))
    assert names(scan(file)) == {".hidden.yaml": ["a"]}


def test_missing_path_has_no_records(tmp_path: Path) -> None:
    assert scan(tmp_path / "none") == {}


def test_files_of_a_config_map_volume_are_read_through_links(tmp_path: Path) -> None:
    """Files are links through ``..data``, as kubelets write them."""
    (tmp_path / "..1").mkdir()
    (tmp_path / "..1" / "a.yaml").write_text(pod("a"))
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    (tmp_path / "dangling.yaml").symlink_to("..data/b.yaml")
    records = scan(tmp_path)
    assert names(records) == {"a.yaml": ["a"], "dangling.yaml": []}
    assert records["dangling.yaml"].manifest.problems[0].message == "is a symbolic link to nothing"


def test_an_unchanged_file_is_not_parsed_again(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(pod("a"))
    first = scan(tmp_path)
    os.utime(file, (1, 1))
    assert scan(tmp_path, first)["a.yaml"] is first["a.yaml"]
    file.write_text(pod("a", "new"))
    assert scan(tmp_path, first)["a.yaml"] is not first["a.yaml"]


def test_busy_files_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(pod("a"))
    first = scan(tmp_path)
    (tmp_path / "a.yaml").write_text("half: [")
    (tmp_path / "b.yaml").write_text("half: [")
    records = scan(tmp_path, first, {"a.yaml", "b.yaml"})
    assert list(records) == ["a.yaml"]
    assert records["a.yaml"] is first["a.yaml"]


def test_unreadable_file_keeps_its_objects(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(pod("a"))
    first = scan(tmp_path)
    file.unlink()
    os.mkfifo(file)
    records = scan(tmp_path, first)
    assert names(records) == {"a.yaml": ["a"]}
    assert "pipe" in records["a.yaml"].manifest.problems[0].message
    file.unlink()
    file.write_text(pod("a"))
    assert scan(tmp_path, records)["a.yaml"].manifest.problems == ()


def test_a_directory_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    with pytest.raises(Transient, match="Not a directory"):
        scan(tmp_path / "a" / "b")


def test_copy_of_the_last_valid_version_survives_a_restart(tmp_path: Path) -> None:
    directory, backup = tmp_path / "m", Backup(tmp_path / "state" / "copies")
    directory.mkdir()
    (directory / "a.yaml").write_text(pod("a", "good"))
    read_changed(directory, {}, frozenset(), backup)
    assert (tmp_path / "state" / "copies").stat().st_mode & 0o777 == 0o700
    (directory / "a.yaml").write_text("half: [")
    # The agent was restarted: it knows nothing.
    record = read_changed(directory, {}, frozenset(), backup)["a.yaml"]
    assert [item.value.spec.containers[0].image for item in record.wanted if item.key.kind == "Pod"] == ["good"]  # type: ignore[union-attr] # it is a Pod
    assert record.kept
    assert record.manifest.problems
    # A broken version never becomes the copy, a good one does.
    (directory / "a.yaml").write_text(pod("b"))
    read_changed(directory, {}, frozenset(), backup)
    (directory / "a.yaml").unlink()
    os.mkfifo(directory / "a.yaml")
    assert names(read_changed(directory, {}, frozenset(), backup)) == {"a.yaml": ["b"]}


def test_copies_of_removed_manifests_are_removed(tmp_path: Path) -> None:
    backup = Backup(tmp_path / "copies")
    backup.keep_only([])
    backup.save("/m/a", b"a")
    backup.save("/m/b", b"b")
    backup.keep_only(["/m/b"])
    assert backup.load("/m/a") is None
    assert backup.load("/m/b") == b"b"


def test_a_copy_that_cannot_be_written_is_only_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    backup = Backup(tmp_path / "file")
    backup.save("/m/a", b"a")
    backup.keep_only([])
    assert [record.message for record in caplog.records] == [
        "manifest backup: write failed",
        "manifest backup: cleanup failed",
    ]


def test_file_name_that_is_not_utf8_is_read_and_shown_with_escapes(tmp_path: Path) -> None:
    backup = Backup(tmp_path / "copies")
    directory = tmp_path / "m"
    directory.mkdir()
    Path(os.fsdecode(os.fsencode(directory) + b"/caf\xe9.yaml")).write_text(pod("a"))
    Path(os.fsdecode(os.fsencode(directory) + b"/br\xff.yaml")).write_text("half: [")
    (directory / "good.yaml").write_text(pod("b"))
    records = read_changed(directory, {}, frozenset(), backup)
    content = assemble(records.values(), Source.FILE, "n")
    assert sorted(images(content)) == ["a-n", "b-n"]
    assert [state.origin for state in content.states] == [
        f"{directory}/br\\xff.yaml",
        f"{directory}/caf\\xe9.yaml",
        f"{directory}/good.yaml",
    ]
    assert all(str(problem).encode() for state in content.states for problem in state.problems)
    assert backup.load(f"{directory}/caf\\xe9.yaml") == pod("a").encode()


def test_file_names_shown_alike_give_each_object_once(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/a\xff")).write_text(pod("a", "first"))
    (tmp_path / "a\\xff").write_text(pod("a", "second"))
    content = assemble(scan(tmp_path).values(), Source.FILE, "n")
    assert len(content.pods) == 1
    assert any("is already given" in str(problem) for state in content.states for problem in state.problems)


def test_file_whose_check_raises_keeps_its_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.yaml").write_text(pod("a"))
    (tmp_path / "b.yaml").write_text(pod("b"))
    first = scan(tmp_path)
    read = read_manifest

    def fails(path: str) -> bytes:
        if path.endswith("a.yaml"):
            raise RuntimeError("a fault of ours")
        return read(path)

    monkeypatch.setattr(disk, "read_manifest", fails)
    (tmp_path / "a.yaml").write_text(pod("a", "new"))
    (tmp_path / "b.yaml").write_text(pod("b", "new"))
    records = scan(tmp_path, first)
    assert images(assemble(records.values(), Source.FILE, "n")) == {"a-n": "busybox:1", "b-n": "new"}
    assert "cannot be checked: RuntimeError" in str(records["a.yaml"].manifest.problems[0])
    monkeypatch.undo()
    assert names(scan(tmp_path, records)) == {"a.yaml": ["a"], "b.yaml": ["b"]}
    assert scan(tmp_path, records)["a.yaml"].manifest.problems == ()
