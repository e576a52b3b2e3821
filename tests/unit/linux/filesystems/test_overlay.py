"""Options of overlay mounts."""

from pathlib import Path

import pytest

from pykubelet.linux.filesystems import overlay


@pytest.mark.root
@pytest.mark.parametrize("known", [True, False])
def test_index_is_off_where_the_kernel_has_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool) -> None:
    parameter, asked = tmp_path / "index", []
    if known:
        parameter.write_text("Y\n")

    def mount(source: str, target: str, kind: str, *, data: str) -> None:
        asked.append(data)

    monkeypatch.setattr(overlay, "_INDEX", parameter)
    monkeypatch.setattr(overlay, "mount", mount)
    overlay.mount_overlay(str(tmp_path), ["2", "1"], "u", "w", "t", volatile=True)
    assert asked == [f"lowerdir=2:1,upperdir=u,workdir=w{',index=off' if known else ''},volatile"]


@pytest.mark.root
def test_label_is_that_of_all_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(overlay, "_INDEX", tmp_path / "none")
    monkeypatch.setattr(overlay, "mount", lambda *_, data: asked.append(data))
    overlay.mount_overlay(str(tmp_path), ["1"], "u", "w", "t", volatile=False, label="u:r:t:s0:c1,c2")
    assert asked == ['lowerdir=1,upperdir=u,workdir=w,context="u:r:t:s0:c1,c2"']
