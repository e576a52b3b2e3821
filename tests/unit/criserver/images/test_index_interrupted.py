"""A server that is killed at any step lets no index of images return that was out of date."""

import shutil
from itertools import count
from pathlib import Path

import pytest

from pykubelet.criserver.images import ImageIndex
from pykubelet.criserver.images.image_types import ImageConfig, ImageRecord
from tests.unit.criserver.interruptions import bad_inode, killed


def _image(name: str) -> ImageRecord:
    digest = f"sha256:{name * 64}"
    return ImageRecord(digest, (f"{name}:latest",), (), 1, ImageConfig(), (), digest)


@pytest.mark.parametrize("damaged", [False, True])
def test_start_that_is_interrupted_lets_no_former_index_return(tmp_path: Path, damaged: bool) -> None:
    """``index-2.json`` has followed a file that the file system could not look up; then fsck repairs that."""
    for step in count(1):
        path = tmp_path / str(step) / "index.json"
        path.parent.mkdir()
        ImageIndex(path).put(_image("a"))
        shutil.copy(path, path.with_name("former"))
        with bad_inode(path):
            index = ImageIndex(path)
            index.put(_image("b"))
            if damaged:
                path.with_name("index-2.json").write_bytes(b"garbage")
            with killed(step) as kill:
                ImageIndex(path)
        found = ImageIndex(path)
        newest = set() if damaged else {_image("b").id}
        assert set(found.images) == newest
        found.put(_image("c"))
        assert set(ImageIndex(path).images) == {*newest, _image("c").id}
        for file in path.parent.glob("index*.json"):
            file.write_bytes(b"garbage")
        assert ImageIndex(path).images == ImageIndex(path).images == {}
        if not kill.done:
            break
    assert step > (4 if damaged else 0)


def test_change_that_is_interrupted_leaves_the_index_before_or_after_it(tmp_path: Path) -> None:
    for step in count(1):
        path = tmp_path / str(step) / "index.json"
        path.parent.mkdir()
        index = ImageIndex(path)
        index.put(_image("a"))
        with killed(step) as kill:
            index.put(_image("b"))
        found = ImageIndex(path)
        assert set(found.images) in ({_image("a").id}, {_image("a").id, _image("b").id})
        found.remove(_image("a").id)
        assert _image("a").id not in ImageIndex(path).images
        if not kill.done:
            break
    assert step > 3


def test_index_that_replaces_a_damaged_one_is_kept_although_it_could_not_be_written_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "index.json"
    path.write_bytes(b"garbage")
    with monkeypatch.context() as patch:
        patch.setattr("pykubelet.criserver.images.index.write_atomic", _full)
        index = ImageIndex(path)
    assert "cannot write the new index of images" in caplog.text
    index.put(_image("a"))
    assert set(ImageIndex(path).images) == {_image("a").id}


def _full(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")
