"""Files that `reset` removes: containers may have written them."""

import os
from pathlib import Path

from pykubelet.cli.reset.files import FilesPart
from pykubelet.cli.reset.places import Places
from pykubelet.criserver.config import Settings

_DEPTH = 3000
"""More than Python's limit of recursion, and than the usual limit of descriptors."""


def _write_deep_tree(top: Path) -> None:
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(_DEPTH):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def test_tree_deeper_than_the_limit_of_recursion_is_removed(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "pods").mkdir(parents=True)
    outside.mkdir()
    (outside / "file").touch()
    _write_deep_tree(root / "pods/volume")
    (root / "pods/link").symlink_to(outside)
    places = Places(
        root=root,
        run=tmp_path / "run",
        pod_logs=tmp_path / "logs",
        container_logs=tmp_path / "links",
        cgroup_root="",
        endpoint="unix:///other.sock",
        server=Settings(),
        server_file=None,
        keep_images=False,
    )
    FilesPart(places).remove()
    assert not root.exists()
    assert (outside / "file").exists()
