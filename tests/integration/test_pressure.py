"""Evictions on a real runtime: pods of an API server are evicted under pressure or above their limits; static pods are
never evicted."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.base.units import Seconds
from pykubelet.kubelet.observe.stats.plan.proc_files import machine_memory
from pykubelet.testing.agent import AgentProcess, container_status, is_ready, wait_for
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.runtime import PrivateRuntime
from tests.integration.api_server import ApiServer, api_server
from tests.manifests import Json, container, mount, pod, serving, sh

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.slow]


@contextlib.contextmanager
def node(
    isolation: Isolation, daemon: PrivateRuntime, tmp_path: Path, **config: object
) -> Iterator[tuple[ApiServer, AgentProcess]]:
    """A node of a fake cluster, with one static pod."""
    with api_server() as api:
        flags = ("--kubeconfig", str(api.kubeconfig(tmp_path / "kubeconfig")))
        settings = {"enableServer": False, "nodeStatusUpdateFrequency": "1s", **config}
        home = isolation.home / "pressure"
        agent = AgentProcess(home, daemon.endpoint, isolation.cgroup_root, config=settings, flags=flags)
        try:
            agent.start()
            agent.write("static.json", pod("static"))
            agent.wait_pod("static", is_ready)
            yield api, agent
            agent.remove_all_pods()
            assert agent.stop() == 0
        finally:
            agent.destroy()


def test_a_pod_that_fills_its_volume_is_evicted(isolation: Isolation, daemon: PrivateRuntime, tmp_path: Path) -> None:
    with node(isolation, daemon, tmp_path, volumeStatsAggPeriod="1s") as (api, agent):
        volumes = [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}]
        write = serving("dd if=/dev/zero of=/v/file bs=1M count=3", status=143)
        api.put_pod(pod("greedy", container(command=write, volumeMounts=[mount("v", "/v")]), volumes=volumes))
        api.put_pod(pod("modest", container(volumeMounts=[mount("v", "/v")]), volumes=volumes))
        wait_for(lambda: api.pod("greedy")["status"].get("phase") == "Failed", 45, agent.log_tail)
        status = api.pod("greedy")["status"]
        assert (status["reason"], status["message"]) == (
            "Evicted",
            'Usage of EmptyDir volume "v" exceeds the limit "1Mi". ',
        )
        agent.wait_pod("modest", is_ready)
        assert container_status(agent.pod("static")).restart_count == 0
        for name in ("greedy", "modest"):
            api.remove_pod(name)
        agent.wait_gone("greedy", "modest")


def test_node_under_memory_pressure_rejects_new_pod(
    isolation: Isolation, daemon: PrivateRuntime, tmp_path: Path
) -> None:
    with node(isolation, daemon, tmp_path, evictionHard={"memory.available": "99%"}) as (api, agent):
        wait_for(lambda: api.conditions().get("MemoryPressure") == "True", 30, agent.log_tail)
        assert api.conditions()["DiskPressure"] == "False"
        api.put_pod(pod("late"))
        wait_for(lambda: api.pod("late")["status"].get("phase") == "Failed", 20, agent.log_tail)
        status = api.pod("late")["status"]
        assert status["reason"] == "Evicted"
        assert status["message"] == "Pod was rejected: The node had condition: [MemoryPressure]. "
        assert is_ready(agent.pod("static")), "static pods are never evicted"
        api.remove_pod("late")
        agent.wait_gone("late")


def test_threshold_that_is_raised_while_the_agent_runs_evicts_a_pod(
    isolation: Isolation, daemon: PrivateRuntime, tmp_path: Path
) -> None:
    with node(isolation, daemon, tmp_path, evictionHard={"memory.available": "1Mi"}) as (api, agent):
        api.put_pod(pod("victim", container(command=serving(status=143))))
        agent.wait_pod("victim", is_ready)
        assert api.conditions()["MemoryPressure"] == "False"
        pid = agent.pid
        agent.reconfigure(evictionHard={"memory.available": "99%"}, evictionPressureTransitionPeriod="1s")
        wait_for(lambda: api.pod("victim")["status"].get("phase") == "Failed", 45, agent.log_tail)
        status = api.pod("victim")["status"]
        assert status["reason"] == "Evicted"
        assert status["message"].startswith("The node was low on resource: memory. Threshold quantity: ")
        wait_for(lambda: api.annotations("victim", "Evicted").get("starved_resource") == "memory", 20, agent.log_tail)
        wait_for(lambda: api.conditions()["MemoryPressure"] == "True", 30, agent.log_tail)
        agent.reconfigure(evictionHard={"memory.available": "1Mi"})
        wait_for(lambda: api.conditions()["MemoryPressure"] == "False", 45, agent.log_tail)
        assert agent.pid == pid and is_ready(agent.pod("static"))
        api.remove_pod("victim")
        agent.wait_gone("victim")


def test_pods_keep_logs_and_results_when_a_disk_is_short_before_the_api_server_has_listed_them(
    isolation: Isolation, daemon: PrivateRuntime, tmp_path: Path
) -> None:
    """An agent that has just started does not know its pods yet: what they have in the runtime is not garbage."""
    agent = AgentProcess(isolation.home / "unread", daemon.endpoint, isolation.cgroup_root)
    agent.config = {"enableServer": False}
    try:
        with api_server() as api:
            agent.flags = ("--kubeconfig", str(api.kubeconfig(tmp_path / "kubeconfig")))
            agent.start()
            api.put_pod(pod("runs", container(command=serving("echo here", status=143))))
            api.put_pod(pod("done", container(command=sh("echo here")), restartPolicy="Never"))
            agent.wait_pod("runs", is_ready)
            agent.wait_pod("done", lambda seen: seen.status.phase == "Succeeded")
            logs = sorted(agent.pod_logs.rglob("*.log"))
            assert len(logs) == 2
            assert agent.stop() == 0
        agent.config["evictionHard"] = {"nodefs.available": "99%"}
        agent.start()
        wait_for(lambda: "nothing to evict" in agent.log_tail(), 30, agent.log_tail)
        assert sorted(agent.pod_logs.rglob("*.log")) == logs
        assert agent.stop() == 0
        agent.config, agent.flags = {}, ()
        agent.start()  # without the API server, these pods are orphans
        wait_for(lambda: not list(agent.pod_logs.rglob("*.log")), 30, agent.log_tail)
        assert agent.stop() == 0
    finally:
        agent.destroy()


MI = 1 << 20


def available() -> int:
    """The machine's memory that is available by the rules of eviction, in bytes."""
    memory = machine_memory(Path("/proc/meminfo").read_text(), "")
    return (memory.limit or 0) - memory.working_set


def hog(name: str) -> Json:
    """A pod that takes up to 3 GiB of memory, as fast as it can."""
    volumes = [{"name": "v", "emptyDir": {"medium": "Memory"}}]
    take = serving("for i in 1 2 3 4 5 6 7 8 9 10 11 12; do dd if=/dev/zero of=/v/$i bs=1M count=256; done", status=143)
    return pod(name, container(command=take, volumeMounts=[mount("v", "/v")]), volumes=volumes)


@pytest.mark.alone  # a hog of another suite would be evicted instead, or evict this one
def test_memory_hog_is_evicted_without_waiting_for_the_periodic_look(
    isolation: Isolation, daemon: PrivateRuntime, tmp_path: Path
) -> None:
    if available() < 5120 * MI:
        pytest.skip("less than 5 GiB of memory are available")
    # Half of what a hog takes: what other programs read counts as well, once the kernel takes it for active.
    least = available() - 1536 * MI
    config = {
        "evictionHard": {"memory.available": str(least)},
        "evictionPressureTransitionPeriod": "1s",
        "kernelMemcgNotification": True,
    }
    with node(isolation, daemon, tmp_path, **config) as (api, agent):
        # A periodic look may happen to see a hog before the notification.
        took = [see_hog_evicted(api, agent, f"hog-{number}", least) for number in range(3)]
        assert min(took) < PATIENCE, f"{took}\n{agent.log_tail()}"
        assert any("memory has become short since the last look" in line for line in log_lines(agent)), agent.log_tail()
        assert is_ready(agent.pod("static")), "static pods are never evicted"


def test_pod_is_evicted_when_all_pods_together_use_what_is_theirs(
    isolation: Isolation, daemon: PrivateRuntime, tmp_path: Path
) -> None:
    if available() < 4096 * MI:
        pytest.skip("less than 4 GiB of memory are available")
    total = machine_memory(Path("/proc/meminfo").read_text(), "").limit or 0
    config = {
        "evictionHard": {"memory.available": "1Gi"},
        "systemReserved": {"memory": str(total - 1536 * MI)},
        "kernelMemcgNotification": True,
    }
    with node(isolation, daemon, tmp_path, **config) as (api, agent):
        volumes = [{"name": "v", "emptyDir": {"medium": "Memory"}}]
        take = serving("for i in 1 2 3 4 5 6; do dd if=/dev/zero of=/v/$i bs=1M count=128; done", status=143)
        api.put_pod(pod("hog", container(command=take, volumeMounts=[mount("v", "/v")]), volumes=volumes))
        wait_for(lambda: api.pod("hog")["status"].get("phase") == "Failed", 45, agent.log_tail)
        status = api.pod("hog")["status"]
        assert status["reason"] == "Evicted"
        assert status["message"].startswith(
            "The node was low on resource: memory. Threshold quantity: 1Gi, available: "
        )
        assert any("signal=allocatableMemory.available" in line for line in log_lines(agent)), agent.log_tail()
        api.remove_pod("hog")
        agent.wait_gone("hog")


def see_hog_evicted(api: ApiServer, agent: AgentProcess, name: str, least: int) -> Seconds:
    """Run a hog until it is evicted; return how long after memory was short it was selected.

    Another one is tried if it is rejected: memory may still be short after the last eviction, or by other programs.
    """

    def is_selected() -> bool:
        return any(name in line and "evicting" in line for line in log_lines(agent))

    def is_rejected() -> bool:
        return str(api.pod(name)["status"].get("message")).startswith("Pod was rejected")

    for _ in range(10):
        wait_for(lambda: api.conditions().get("MemoryPressure") == "False", 30, agent.log_tail)
        api.put_pod(hog(name))
        wait_for(lambda: available() < least or is_rejected(), 30, agent.log_tail)
        crossed = time.monotonic()
        wait_for(lambda: is_selected() or is_rejected(), 30, agent.log_tail)
        if is_selected():
            break
        api.remove_pod(name)
        agent.wait_gone(name)
    took = time.monotonic() - crossed
    print(f"{name} was selected {took:.2f} s after memory was short")
    wait_for(lambda: api.pod(name)["status"].get("phase") == "Failed", 30, agent.log_tail)
    message = api.pod(name)["status"]["message"]
    assert message.startswith("The node was low on resource: memory. Threshold quantity: "), message
    assert "Container main was using " in message, message
    api.remove_pod(name)
    agent.wait_gone(name)
    return took


def log_lines(agent: AgentProcess) -> list[str]:
    return agent.log.read_text().splitlines()
