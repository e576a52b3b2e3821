"""Requests and limits as the kernel has them, on cgroup v1 and v2."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from pykubelet.linux.cgroups import Layout, detect
from pykubelet.testing.agent import AgentProcess, container_status, wait_for
from tests.manifests import Apply, Json, container, pod, sh

pytestmark = [pytest.mark.root, pytest.mark.runtime]

_MIB = 1 << 20
_STEP = 27
"""CPU shares in one step of version 2's weight, which rounds down."""


@dataclass(frozen=True, slots=True)
class _Cgroup:
    """The cgroup of a process, read in either version."""

    layout: Layout
    paths: dict[str, str]
    """Path by controller; the empty name is that of version 2."""

    def path(self, controller: str) -> str:
        return self.paths.get(controller, self.paths.get("", ""))

    def read(self, controller: str, v1: str, v2: str) -> str:
        """A control file, by its name in each version."""
        folder = _folder_of(self.layout, controller)
        name = v2 if folder == self.layout.unified else v1
        return (folder / self.path(controller).lstrip("/") / name).read_text().strip()

    def above(self) -> "_Cgroup":
        return _Cgroup(self.layout, {name: path.rpartition("/")[0] for name, path in self.paths.items()})

    @property
    def memory_limit(self) -> int:
        text = self.read("memory", "memory.limit_in_bytes", "memory.max")
        return int(text) if text != "max" else 1 << 62

    @property
    def cpu_quota(self) -> int:
        """Microseconds in 100 ms."""
        return int(self.read("cpu", "cpu.cfs_quota_us", "cpu.max").split()[0].replace("max", "-1"))

    @property
    def cpu_shares(self) -> int:
        """In version 1's unit, 1024 a core; version 2's weight is converted back, roughly."""
        if _folder_of(self.layout, "cpu") == self.layout.unified:
            weight = int(self.read("cpu", "", "cpu.weight"))
            return (weight - 1) * 262142 // 9999 + 2
        return int(self.read("cpu", "cpu.shares", ""))


def _folder_of(layout: Layout, controller: str) -> Path:
    """Where a controller's hierarchy is mounted; version 2 has one for all."""
    folder = layout.controllers.get(controller, layout.unified)
    assert folder is not None, f"no hierarchy has the controller {controller}"
    return folder


def _cgroup_of(agent: AgentProcess, name: str, container_name: str = "main") -> _Cgroup:
    """By the container's first process as the host sees it."""
    identity = container_status(agent.pod(name), container_name).container_id.partition("://")[2]
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                rows = (folder / "cgroup").read_text().splitlines()
            except OSError:
                continue
            if any(identity in row for row in rows):
                split = [row.split(":", 2) for row in rows]
                return _Cgroup(detect(), {each: path for _, names, path in split for each in names.split(",")})
    raise AssertionError(f"no process of container {identity}")


def _resources(requests: Json | None = None, limits: Json | None = None) -> Json:
    return {"resources": {key: value for key, value in (("requests", requests), ("limits", limits)) if value}}


def test_limits_are_in_the_cgroups(agent: AgentProcess, apply: Apply) -> None:
    same = {"cpu": "200m", "memory": "32Mi"}
    apply(
        "limits",
        pod("guaranteed", container(**_resources(same, same)), container("second", **_resources(same, same))),
        pod("burstable", container(**_resources({"cpu": "100m", "memory": "16Mi"}, {"memory": "64Mi"}))),
        pod("besteffort"),
    )
    agent.wait_running("guaranteed", "burstable", "besteffort")
    one = _cgroup_of(agent, "guaranteed")
    assert (one.memory_limit, one.cpu_quota) == (32 * _MIB, 20_000)
    assert 204 - _STEP <= one.cpu_shares <= 205
    whole = one.above()
    assert (whole.memory_limit, whole.cpu_quota) == (64 * _MIB, 40_000)
    assert 409 - _STEP <= whole.cpu_shares <= 410
    burst = _cgroup_of(agent, "burstable")
    assert (burst.memory_limit, burst.cpu_quota) == (64 * _MIB, -1)
    assert 102 - _STEP <= burst.cpu_shares <= 103
    best = _cgroup_of(agent, "besteffort")
    assert best.cpu_shares == 2
    assert best.memory_limit > 1 << 40
    assert best.cpu_quota == -1
    for name, parent in (("guaranteed", ""), ("burstable", "/burstable"), ("besteffort", "/besteffort")):
        uid = agent.pod(name).metadata.uid
        path = _cgroup_of(agent, name).path("memory")
        assert path.startswith(f"{agent.cgroup_root}/kubepods{parent}/pod{uid}/")
    assert {name: seen.status.qos_class for name, seen in agent.pods().items()} == {
        "guaranteed": "Guaranteed",
        "burstable": "Burstable",
        "besteffort": "BestEffort",
    }


def test_oom_scores(agent: AgentProcess, apply: Apply) -> None:
    apply("scores", pod("score-best"), pod("score-burst", container(**_resources({"memory": "16Mi"}))))
    agent.wait_running("score-best", "score-burst")
    assert int(agent.exec("score-best", "cat /proc/1/oom_score_adj")) == 1000
    assert 2 <= int(agent.exec("score-burst", "cat /proc/1/oom_score_adj")) <= 999


def test_an_oom_kill_is_told(agent: AgentProcess, apply: Apply) -> None:
    # tail keeps all it reads of an endless line in memory.
    hungry = container(command=sh("tail /dev/zero"), **_resources(limits={"memory": "16Mi"}))
    apply("oom", pod("oom", hungry, restartPolicy="Never"))
    seen = agent.wait_pod("oom", lambda p: p.status.phase == "Failed")
    state = container_status(seen).state
    assert state is not None
    assert state.terminated is not None
    assert (state.terminated.exit_code, state.terminated.reason) == (137, "OOMKilled")


def test_cgroups_of_a_removed_pod_are_gone(agent: AgentProcess, apply: Apply) -> None:
    apply("brief", pod("brief"))
    uid = agent.wait_running("brief")[0].metadata.uid
    layout = detect()
    roots = {_folder_of(layout, controller) for controller in ("cpu", "memory", "pids")}

    def left() -> list[Path]:
        return [path for root in roots for path in (root / agent.cgroup_root.lstrip("/")).glob(f"**/pod{uid}")]

    assert left()
    apply("brief")
    agent.wait_gone("brief")
    wait_for(lambda: not left(), 3, lambda: str(left()))
