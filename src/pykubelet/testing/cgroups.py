"""A cgroup v2 file system made of plain files, with those rules of the kernel that the product relies on.

A new cgroup has the control files of the controllers its parent passes on; a cgroup with processes (other
than the root) cannot pass controllers on; one with processes or children cannot be removed.
"""

import errno
import os
import shutil
from pathlib import Path

from pykubelet.linux.cgroups.files import CgroupFiles
from pykubelet.linux.errors import wrap

CONTROLLERS = ("cpuset", "cpu", "io", "memory", "hugetlb", "pids")
_PLAIN = {
    "cgroup.procs": "",
    "cgroup.subtree_control": "",
    "cgroup.kill": "",
    "cpu.stat": "usage_usec 0\nuser_usec 0\nsystem_usec 0\n",
}
_BY_CONTROLLER: dict[str, dict[str, str]] = {
    "cpu": {"cpu.weight": "100", "cpu.max": "max 100000"},
    "cpuset": {"cpuset.cpus": "", "cpuset.mems": ""},
    "io": {"io.weight": "default 100"},
    "memory": {
        "memory.current": "0",
        "memory.max": "max",
        "memory.high": "max",
        "memory.low": "0",
        "memory.min": "0",
        "memory.oom.group": "0",
        "memory.swap.current": "0",
        "memory.swap.max": "max",
        "memory.stat": "anon 0\nfile 0\ninactive_file 0\npgfault 0\npgmajfault 0\n",
    },
    "hugetlb": {"hugetlb.2MB.max": "max", "hugetlb.2MB.rsvd.max": "max"},
    "pids": {"pids.current": "0", "pids.max": "max"},
}


class FakeCgroupFiles(CgroupFiles):
    """A fake of the kernel's cgroup files below `root`; pass it to `CgroupV2(root, files)`."""

    def __init__(self, root: Path, controllers: tuple[str, ...] = CONTROLLERS) -> None:
        self.root = root
        self.writes: list[tuple[str, str]] = []
        """Every accepted write: path below the root, and the value."""
        root.mkdir(exist_ok=True)
        for name in ("cgroup.procs", "cgroup.subtree_control"):
            (root / name).write_text("")
        (root / "cgroup.controllers").write_text(" ".join(controllers) + "\n")

    def make(self, path: Path) -> bool:
        if not super().make(path):
            return False
        passed_on = (path.parent / "cgroup.subtree_control").read_text().split()
        files = _PLAIN | {"cgroup.controllers": " ".join(passed_on) + "\n"}
        for name in passed_on:
            files |= _BY_CONTROLLER[name]
        for name, content in files.items():
            (path / name).write_text(content)
        return True

    def write(self, path: Path, value: str) -> None:
        what = f"cannot write {value!r} to {path}"
        if not path.exists():
            raise wrap(OSError(errno.ENOENT, os.strerror(errno.ENOENT)), what)
        if path.name == "cgroup.subtree_control":
            value = self._switch_on(path, value, what)
        if path.name == "cgroup.kill":
            for directory in self.tree(path.parent):
                (directory / "cgroup.procs").write_text("")
        self.writes.append((str(path.relative_to(self.root)), value))
        path.write_text(value)

    def remove(self, path: Path) -> None:
        if path.exists() and (self.subdirectories(path) or (path / "cgroup.procs").read_text()):
            raise wrap(OSError(errno.EBUSY, os.strerror(errno.EBUSY)), f"cannot remove cgroup {path}")
        shutil.rmtree(path, ignore_errors=True)

    def _switch_on(self, path: Path, value: str, what: str) -> str:
        if path.parent != self.root and (path.parent / "cgroup.procs").read_text():
            raise wrap(OSError(errno.EBUSY, os.strerror(errno.EBUSY)), what)
        name = value.removeprefix("+")
        if name not in (path.parent / "cgroup.controllers").read_text().split():
            raise wrap(OSError(errno.ENOENT, os.strerror(errno.ENOENT)), what)
        for child in self.subdirectories(path.parent):
            directory = path.parent / child
            controllers = (directory / "cgroup.controllers").read_text().split()
            if name in controllers:
                continue
            (directory / "cgroup.controllers").write_text(" ".join([*controllers, name]) + "\n")
            for file, content in _BY_CONTROLLER[name].items():
                (directory / file).write_text(content)
        return " ".join(dict.fromkeys([*path.read_text().split(), name]))
