"""Requests and limits, verified in the kernel, on cgroup v1 and v2."""

from pathlib import Path

import pytest

from pykubelet.linux.cgroups import detect
from pykubelet.testing.agent import AgentProcess, container_status, wait_for
from pykubelet.testing.runtime import PrivateRuntime
from tests.cgroup_view import cgroup_of, directory_of
from tests.manifests import Apply, Json, container, pod, sh

pytestmark = [pytest.mark.root, pytest.mark.runtime]

_MIB = 1 << 20
_STEP = 27
"""CPU shares per step of cgroup v2's weight, which is rounded down."""
_OWN_SCORE = 321
"""OOM score adjustment of the agent: one that needs no capability."""


@pytest.fixture(scope="module")
def agent_config() -> dict[str, object]:
    return {"oomScoreAdj": _OWN_SCORE}


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
    one = cgroup_of(agent, "guaranteed")
    assert (one.memory_limit, one.cpu_quota) == (32 * _MIB, 20_000)
    assert 204 - _STEP <= one.cpu_shares <= 205
    whole = one.above()
    assert (whole.memory_limit, whole.cpu_quota) == (64 * _MIB, 40_000)
    assert 409 - _STEP <= whole.cpu_shares <= 410
    burst = cgroup_of(agent, "burstable")
    assert (burst.memory_limit, burst.cpu_quota) == (64 * _MIB, -1)
    assert 102 - _STEP <= burst.cpu_shares <= 103
    best = cgroup_of(agent, "besteffort")
    assert best.cpu_shares == 2
    assert best.memory_limit > 1 << 40
    assert best.cpu_quota == -1
    for name, parent in (("guaranteed", ""), ("burstable", "/burstable"), ("besteffort", "/besteffort")):
        uid = agent.pod(name).metadata.uid
        path = cgroup_of(agent, name).path("memory")
        assert path.startswith(f"{agent.cgroup_root}/kubepods{parent}/pod{uid}/")
    assert {name: seen.status.qos_class for name, seen in agent.pods().items()} == {
        "guaranteed": "Guaranteed",
        "burstable": "Burstable",
        "besteffort": "BestEffort",
    }


def test_oom_scores_of_processes_follow_the_qos_class(agent: AgentProcess, apply: Apply) -> None:
    apply("scores", pod("score-best"), pod("score-burst", container(**_resources({"memory": "16Mi"}))))
    agent.wait_running("score-best", "score-burst")
    assert int(agent.exec("score-best", "cat /proc/1/oom_score_adj")) == 1000
    assert 2 <= int(agent.exec("score-burst", "cat /proc/1/oom_score_adj")) <= 999
    assert int(Path(f"/proc/{agent.pid}/oom_score_adj").read_text()) == _OWN_SCORE


def test_oom_kill_is_reported(agent: AgentProcess, apply: Apply) -> None:
    # tail keeps the whole of an endless line in memory.
    hungry = container(command=sh("tail /dev/zero"), **_resources(limits={"memory": "16Mi"}))
    apply("oom", pod("oom", hungry, restartPolicy="Never"))
    seen = agent.wait_pod("oom", lambda p: p.status.phase == "Failed")
    state = container_status(seen).state
    assert state is not None
    assert state.terminated is not None
    assert (state.terminated.exit_code, state.terminated.reason) == (137, "OOMKilled")


def test_oom_kill_in_a_pod_is_that_of_one_container(agent: AgentProcess, apply: Apply, daemon: PrivateRuntime) -> None:
    """The kernel tells all containers of a pod on cgroup v1 that the pod is above its limit."""
    hungry = container(command=sh("tail /dev/zero"))
    modest = container("modest", command=sh("sleep 4"))
    limit = {"resources": {"limits": {"memory": "24Mi"}}}
    apply("oom-pod", pod("oom-pod", modest, hungry, restartPolicy="Never", **limit))
    seen = agent.wait_pod("oom-pod", lambda p: p.status.phase == "Failed")
    states = [status.state for status in seen.status.container_statuses]
    ends = {s.terminated.exit_code: s.terminated.reason for s in states if s is not None and s.terminated is not None}
    assert ends.keys() == {0, 137}
    if daemon.name != "containerd":  # which believes what the kernel tells it
        assert ends == {0: "Completed", 137: "OOMKilled"}


def test_cgroups_of_removed_pod_are_removed(agent: AgentProcess, apply: Apply) -> None:
    apply("brief", pod("brief"))
    uid = agent.wait_running("brief")[0].metadata.uid
    layout = detect()
    roots = {directory_of(layout, controller) for controller in ("cpu", "memory", "pids")}

    def left() -> list[Path]:
        return [path for root in roots for path in (root / agent.cgroup_root.lstrip("/")).glob(f"**/pod{uid}")]

    assert left()
    apply("brief")
    agent.wait_gone("brief")
    wait_for(lambda: not left(), 3, lambda: str(left()))
