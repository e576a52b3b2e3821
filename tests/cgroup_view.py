"""The cgroup of a container as the kernel reports it, on cgroup v1 and v2, for tests with a real runtime."""

from dataclasses import dataclass
from pathlib import Path

from pykubelet.linux.cgroups import Layout, detect
from pykubelet.testing.agent import AgentProcess, container_status


@dataclass(frozen=True, slots=True)
class CgroupView:
    """The cgroup of a process, on cgroup v1 or v2."""

    layout: Layout
    paths: dict[str, str]
    """Path by controller; the empty name is that of cgroup v2."""

    def path(self, controller: str) -> str:
        return self.paths.get(controller, self.paths.get("", ""))

    def read(self, controller: str, v1: str, v2: str) -> str:
        """The content of a control file, by its name in each version."""
        directory = directory_of(self.layout, controller)
        name = v2 if directory == self.layout.unified else v1
        return (directory / self.path(controller).lstrip("/") / name).read_text().strip()

    def above(self) -> "CgroupView":
        return CgroupView(self.layout, {name: path.rpartition("/")[0] for name, path in self.paths.items()})

    @property
    def memory_limit(self) -> int:
        text = self.read("memory", "memory.limit_in_bytes", "memory.max")
        return int(text) if text != "max" else 1 << 62

    @property
    def cpu_quota(self) -> int:
        """CPU quota in microseconds per 100 ms."""
        return int(self.read("cpu", "cpu.cfs_quota_us", "cpu.max").split()[0].replace("max", "-1"))

    @property
    def cpu_shares(self) -> int:
        """CPU shares of cgroup v1 (1024 per core); the weight of cgroup v2 is converted back approximately."""
        if directory_of(self.layout, "cpu") == self.layout.unified:
            weight = int(self.read("cpu", "", "cpu.weight"))
            return (weight - 1) * 262142 // 9999 + 2
        return int(self.read("cpu", "cpu.shares", ""))


def directory_of(layout: Layout, controller: str) -> Path:
    """Mount point of a controller's hierarchy; cgroup v2 has one for all."""
    directory = layout.controllers.get(controller, layout.unified)
    assert directory is not None, f"no hierarchy has the controller {controller}"
    return directory


def cgroup_of(agent: AgentProcess, name: str, container_name: str = "main") -> CgroupView:
    """The cgroup of a container, found by its first process."""
    identity = container_status(agent.pod(name), container_name).container_id.partition("://")[2]
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal():
            try:
                rows = (directory / "cgroup").read_text().splitlines()
            except OSError:
                continue
            if any(identity in row for row in rows):
                split = [row.split(":", 2) for row in rows]
                return CgroupView(detect(), {each: path for _, names, path in split for each in names.split(",")})
    raise AssertionError(f"no process of container {identity}")
