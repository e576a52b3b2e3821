"""The removal of what a Go kubelet leaves outside its directory."""

import os
from pathlib import Path

import pytest

from benchmarks import go_kubelet
from benchmarks.go_kubelet import GoKubelet


def test_log_links_that_others_remove_meanwhile_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, links = tmp_path / "home", tmp_path / "links"
    for directory in (home, links):
        directory.mkdir()
    for name in ("mine", "vanishing"):
        (links / name).symlink_to(home / "log")
    (links / "other").symlink_to("/elsewhere")
    read = Path.readlink

    def racing(path: Path) -> Path:
        if path.name == "vanishing":
            path.unlink()
        return read(path)

    monkeypatch.setattr(Path, "readlink", racing)
    monkeypatch.setattr(go_kubelet, "_LOG_LINKS", links)
    GoKubelet(Path("/bin/false"), home, tmp_path / "socket", f"/pktest-none-{os.getpid()}").destroy()
    assert not home.exists()
    assert [path.name for path in links.iterdir()] == ["other"]
