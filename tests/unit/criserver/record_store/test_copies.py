"""Copies of records: what stands in their place, and what a file system does to them."""

import logging
from pathlib import Path

import pytest

from pykubelet.criserver.record_store.copies import RecordCopies


def made(tmp_path: Path) -> RecordCopies:
    copies = RecordCopies(tmp_path / "records" / "sandboxes")
    copies.prepare()
    return copies


def test_file_in_place_of_the_directory_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / "records").write_text("obstacle")
    made(tmp_path).put("s1", b"{}")
    (aside,) = tmp_path.glob("records.aside-*")
    assert aside.read_text() == "obstacle"


def test_temporary_files_of_a_killed_server_are_removed(tmp_path: Path) -> None:
    copies = made(tmp_path)
    left = tmp_path / "records" / "sandboxes" / ".s1.json.0123456789ab.tmp"
    left.write_text("half")
    copies.prepare()
    assert not left.exists()


def test_directory_in_place_of_a_copy_is_set_aside_and_the_copy_written(tmp_path: Path) -> None:
    copies = made(tmp_path)
    place = tmp_path / "records" / "sandboxes" / "s1.json"
    (place / "inside").mkdir(parents=True)
    copies.put("s1", b"{}")
    assert copies.get("s1") == b"{}"
    (aside,) = place.parent.glob("s1.json.aside-*")
    assert (aside / "inside").is_dir()


def test_drop_removes_a_copy_and_sets_a_directory_in_its_place_aside(tmp_path: Path) -> None:
    copies = made(tmp_path)
    place = tmp_path / "records" / "sandboxes"
    copies.put("s1", b"{}")
    (place / "s2.json" / "inside").mkdir(parents=True)
    for identity in ("s1", "s2", "s3"):
        copies.drop(identity)
    assert [each.name.partition(".aside-")[0] for each in place.iterdir()] == ["s2.json"]
    assert list(copies.all()) == []


def test_copies_without_content_are_logged_and_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    copies = made(tmp_path)
    copies.put("s1", b"{}")
    for identity, content in (("s2", b""), ("s0", None)):
        path = tmp_path / "records" / "sandboxes" / f"{identity}.json"
        path.mkdir() if content is None else path.write_bytes(content)
    with caplog.at_level(logging.ERROR):
        assert list(copies.all()) == [("s1", b"{}")]
    assert [Path(record.__dict__["file"]).name for record in caplog.records] == ["s0.json", "s2.json"]


def test_copies_are_kept_as_wanted_and_equal_ones_are_not_written_again(tmp_path: Path) -> None:
    copies = made(tmp_path)
    for identity in ("same", "other", "unwanted"):
        copies.put(identity, b"old")
    same = tmp_path / "records" / "sandboxes" / "same.json"
    before = same.stat().st_ino
    copies.keep({"same": b"old", "other": b"new", "missing": b"new"})
    assert dict(copies.all()) == {"same": b"old", "other": b"new", "missing": b"new"}
    assert same.stat().st_ino == before
