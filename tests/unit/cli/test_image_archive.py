"""The file of an exported image: complete or missing, and never written through a link."""

from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.cli.changes.image_archive import archive_writer


def test_link_with_a_name_that_others_can_guess_is_not_written_through(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("kept")
    (tmp_path / ".x.tar.part").symlink_to(precious)
    with archive_writer(tmp_path / "x.tar", "auto") as write:
        write(b"data")
    assert precious.read_text() == "kept"
    assert (tmp_path / "x.tar").read_bytes() == b"data"


def test_failed_export_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "x.tar"
    target.write_text("old")
    with pytest.raises(Invalid), archive_writer(target, "auto") as write:
        write(b"half")
        raise Invalid("broken")
    assert [path.name for path in tmp_path.iterdir()] == ["x.tar"]
    assert target.read_text() == "old"
