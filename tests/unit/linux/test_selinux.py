"""SELinux: facts below a root of the test's own, and labels of real files (any file system stores them for root)."""

import os
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.linux import selinux
from pykubelet.linux.selinux import container_labels, relabel

LABEL = "system_u:object_r:container_file_t:s0:c1,c2"
CONTEXTS = 'process = "system_u:system_r:other_t:s0"\nfile = "system_u:object_r:other_file_t:s0"\nro_file = "x"\n'


def machine(root: Path, current: str = "system_u:system_r:init_t:s0\0\n", policy: str = "targeted") -> Path:
    files = {
        "sys/fs/selinux/enforce": "1",
        "proc/self/attr/current": current,
        "etc/selinux/config": f"# a comment\nSELINUX=enforcing\nSELINUXTYPE={policy}\n",
        "etc/selinux/mls/contexts/lxc_contexts": CONTEXTS,
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_labels_are_those_of_the_policy_or_the_usual_ones(tmp_path: Path) -> None:
    assert container_labels(machine(tmp_path / "a", policy="mls")) == (
        "system_u:system_r:other_t:s0",
        "system_u:object_r:other_file_t:s0",
    )
    assert container_labels(machine(tmp_path / "b")) == (
        "system_u:system_r:container_t:s0",
        "system_u:object_r:container_file_t:s0",
    )


@pytest.mark.parametrize("current", ["kernel\0", ""])
def test_selinux_without_a_policy_is_disabled(tmp_path: Path, current: str) -> None:
    assert container_labels(machine(tmp_path, current)) is None
    assert container_labels(tmp_path / "empty") is None


def label_of(path: Path) -> str:
    try:
        return os.getxattr(path, "security.selinux", follow_symlinks=False).rstrip(b"\0").decode()
    except OSError:
        return ""


@pytest.mark.root
def test_tree_is_relabelled_and_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").touch()
    top = tmp_path / "top"
    (top / "a" / "b").mkdir(parents=True)
    (top / "a" / "b" / "file").touch()
    (top / "link").symlink_to(outside)
    os.mkfifo(top / "fifo")
    everything = {top, *top.rglob("*")}
    assert relabel(str(top), LABEL) == len(everything) == 6
    assert {label_of(path) for path in everything} == {LABEL}
    assert label_of(outside) == label_of(outside / "file") == ""
    assert relabel(str(top), LABEL) == 0
    assert relabel(str(top / "a" / "b" / "file"), "u:r:t:s0") == 1
    assert relabel(str(top / "absent"), LABEL) == 0


@pytest.mark.root
def test_source_that_is_a_link_is_relabelled_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    assert relabel(str(tmp_path / "link"), LABEL) == 1
    assert label_of(tmp_path / "file") == LABEL and label_of(tmp_path / "link") == ""


@pytest.mark.parametrize("path", ["/", "/etc", "/usr/", "/var/../etc"])
def test_directories_of_the_system_are_refused(path: str) -> None:
    with pytest.raises(Invalid, match="belongs to the system"):
        relabel(path, LABEL)


def test_link_to_a_directory_of_the_system_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc")
    with pytest.raises(Invalid, match="belongs to the system"):
        relabel(str(tmp_path / "link"), LABEL)


@pytest.mark.root
def test_tree_that_is_too_deep_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selinux, "_DEEPEST", 3)
    (tmp_path / "1/2/3/4").mkdir(parents=True)
    with pytest.raises(Invalid, match="more than 3 levels"):
        relabel(str(tmp_path), LABEL)


def test_file_system_without_labels_is_left_alone() -> None:
    assert relabel("/proc/sys/kernel/hostname", LABEL) == 0
