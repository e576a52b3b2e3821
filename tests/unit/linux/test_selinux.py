"""SELinux: facts below a root of the test's own, and labels of real files (any file system stores them for root)."""

import errno
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid, PykubeletError, Transient
from pykubelet.linux import selinux
from pykubelet.linux.selinux import ContainerLabels, check_labels, container_labels, relabel

LABEL = "system_u:object_r:container_file_t:s0:c1,c2"
CONTEXTS = (
    'process = "system_u:system_r:other_t:s0"\nfile = "system_u:object_r:other_file_t:s0"\nro_file="su:or:ro_t:s0"\n'
)


def machine(root: Path, current: str = "system_u:system_r:init_t:s0\0\n", policy: str = "targeted") -> Path:
    files = {
        "sys/fs/selinux/enforce": "1",
        "sys/fs/selinux/context": "",
        "proc/self/attr/current": current,
        "etc/selinux/config": f"# a comment\nSELINUX=enforcing\nSELINUXTYPE={policy}\n",
        "etc/selinux/mls/contexts/lxc_contexts": CONTEXTS,
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


OTHER = ContainerLabels(
    process="system_u:system_r:other_t:s0", files="system_u:object_r:other_file_t:s0", layers="su:or:ro_t:s0"
)


def kernel(monkeypatch: pytest.MonkeyPatch, knows: Callable[[str], bool]) -> list[str]:
    """Have the kernel know some labels; returns those that it is asked about."""
    asked: list[str] = []

    def write(_fd: int, data: bytes) -> int:
        label = data.decode()
        assert label.endswith("\0"), "the kernel takes it without, but libselinux writes it"
        asked.append(label[:-1])
        if not knows(label[:-1]):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return len(data)

    monkeypatch.setattr(os, "write", write)
    return asked


def test_labels_are_those_of_the_policy_or_the_usual_ones(tmp_path: Path) -> None:
    assert container_labels(machine(tmp_path / "a", policy="mls")) == OTHER
    assert container_labels(machine(tmp_path / "b")) == ContainerLabels(
        process="system_u:system_r:container_t:s0",
        files="system_u:object_r:container_file_t:s0",
        layers="system_u:object_r:container_file_t:s0",
    )


def test_labels_that_the_kernel_refuses_are_not_used(tmp_path: Path) -> None:
    root = machine(tmp_path, policy="mls")
    # A file of the kernel that refuses a label as the file of SELinux does, with EINVAL.
    (root / "sys/fs/selinux/context").unlink()
    (root / "sys/fs/selinux/context").symlink_to("/proc/self/oom_score_adj")
    found = container_labels(root)
    assert found == ContainerLabels(problem=f"the policy does not know {OTHER.process} and {OTHER.files}")


@pytest.mark.parametrize("kind", ["other_t", "other_file_t"])
def test_policy_that_lacks_one_of_the_labels_confines_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    asked = kernel(monkeypatch, lambda label: f":{kind}:" not in label)
    found = container_labels(machine(tmp_path, policy="mls"))
    assert found.process == found.files == found.layers == "" and f":{kind}:s0" in found.problem
    assert asked == [OTHER.process, OTHER.files]


def test_layers_have_the_label_of_files_if_the_policy_has_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel(monkeypatch, lambda label: label != OTHER.layers)
    assert container_labels(machine(tmp_path, policy="mls")).layers == OTHER.files


def test_labels_are_used_if_the_server_may_not_ask_the_kernel(tmp_path: Path) -> None:
    root = machine(tmp_path, policy="mls")
    (root / "sys/fs/selinux/context").unlink()
    assert container_labels(root) == OTHER


def test_label_that_the_policy_does_not_know_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = machine(tmp_path)
    asked = kernel(monkeypatch, lambda label: ":absent_t:" not in label)
    check_labels("u:r:known_t:s0", "", root=root)
    with pytest.raises(Invalid, match="does not know the label u:r:absent_t:s0"):
        check_labels("u:r:known_t:s0", "u:r:absent_t:s0", root=root)
    assert asked == ["u:r:known_t:s0", "u:r:known_t:s0", "u:r:absent_t:s0"]


@pytest.mark.parametrize("current", ["kernel\0", ""])
def test_selinux_without_a_policy_is_disabled(tmp_path: Path, current: str) -> None:
    assert container_labels(machine(tmp_path, current)) == ContainerLabels()
    assert container_labels(tmp_path / "empty") == ContainerLabels()


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


@pytest.mark.parametrize("path", ["/proc/sys", "/sys/fs/cgroup", "/dev/shm"])
def test_file_systems_of_the_kernel_are_refused(path: str) -> None:
    with pytest.raises(Invalid, match="belongs to the system"):
        relabel(path, LABEL)


@pytest.mark.root
def test_link_that_is_exchanged_after_it_was_resolved_leads_to_no_directory_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "volume" / "etc").mkdir(parents=True)
    (tmp_path / "system" / "etc").mkdir(parents=True)
    monkeypatch.setattr(selinux, "_OF_SYSTEM", frozenset((str(tmp_path / "system" / "etc"),)))

    def resolved(path: str) -> str:
        # A container exchanges the directory for a link at this moment.
        (tmp_path / "volume").rename(tmp_path / "former")
        (tmp_path / "volume").symlink_to(tmp_path / "system")
        return path

    monkeypatch.setattr(os.path, "realpath", resolved)
    with pytest.raises(Invalid, match="belongs to the system"):
        relabel(str(tmp_path / "volume" / "etc"), LABEL)
    assert label_of(tmp_path / "system" / "etc") == ""


@pytest.mark.root
def test_tree_that_is_deeper_than_the_stack_is_relabelled_with_few_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    before, most = len(list(Path("/proc/self/fd").iterdir())), 0

    def stop() -> bool:
        nonlocal most
        most = max(most, len(list(Path("/proc/self/fd").iterdir())) - before)
        return False

    try:
        assert relabel(str(tmp_path), LABEL, stop) == 1501
        assert os.getxattr(f"/proc/self/fd/{fd}", "security.selinux").rstrip(b"\0").decode() == LABEL
    finally:
        os.close(fd)
        subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)
    assert 0 < most < 100


@pytest.mark.root
def test_relabelling_stops_on_request_and_goes_on_later(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}" / "below").mkdir(parents=True)
    steps = iter([False, False, True])
    with pytest.raises(Transient, match="stopped after"):
        relabel(str(tmp_path), LABEL, lambda: next(steps))
    done = sum(label_of(path) == LABEL for path in tmp_path.rglob("*"))
    assert 0 < done < 11
    assert relabel(str(tmp_path), LABEL) == 11 - done


@pytest.mark.root
def test_file_system_without_labels_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOTSUP, "not supported")

    (tmp_path / "file").touch()
    monkeypatch.setattr(os, "setxattr", unsupported)
    assert relabel(str(tmp_path), LABEL) == 0


@pytest.mark.root
def test_file_that_cannot_be_relabelled_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> None:
        raise OSError(errno.EROFS, "read-only")

    (tmp_path / "file").touch()
    monkeypatch.setattr(os, "setxattr", denied)
    with pytest.raises(PykubeletError, match="cannot get the SELinux label"):
        relabel(str(tmp_path), LABEL)
