"""SIGKILL of the agent at random instants of starts and stops: nothing is restarted, doubled, lost or leaked."""

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field

import pytest

from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.models.core_v1 import Pod
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.agent import AgentProcess, is_ready, wait_for
from tests.manifests import Json, config_map, container, mount, pod, sh

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.slow, pytest.mark.timeout(600)]

ROUNDS = 30
SEED = 1836
LATEST_KILL_SECONDS = 1.6
STEADY = ("steady-a", "steady-b")
RUNNING = pb.CONTAINER_RUNNING


@dataclass
class Tally:
    """What went wrong, by round."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    restarted: list[str] = field(default_factory=list)
    recovery: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        times = sorted(self.recovery)
        return (
            f"{len(self.recovery)} kills: {len(self.lost)} lost, {len(self.doubled)} doubled, "
            f"{len(self.restarted)} restarted; recovered within {times[len(times) // 2]:.1f} s (median), "
            f"{times[-1]:.1f} s (longest)"
        )


def steady(name: str) -> Json:
    """A pod that runs through all rounds, with a volume and two containers."""
    containers = [container("one", volumeMounts=[mount("data", "/data")]), container("two")]
    return pod(name, *containers, volumes=[{"name": "data", "emptyDir": {}}])


def churning(name: str) -> list[Json]:
    """Pods that a round starts and the next one stops: init containers, a sidecar, volumes of every kind."""
    settings = config_map(f"{name}-settings", {"key": name})
    volumes = [
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
        {"name": "settings", "configMap": {"name": f"{name}-settings"}},
    ]
    mounts = [mount("memory", "/memory"), mount("settings", "/settings"), mount("memory", "/sub", subPath="below")]
    first = container("first", sh("cat /settings/key >/memory/seen"), volumeMounts=mounts)
    sidecar = container("sidecar", restartPolicy="Always")
    rich = pod(f"{name}-rich", container(volumeMounts=mounts), initContainers=[first, sidecar], volumes=volumes)
    return [settings, rich, pod(f"{name}-plain")]


def listed(endpoint: str) -> Counter[tuple[str, str]]:
    """Running containers in the runtime, by pod name and container name."""

    async def ask() -> Counter[tuple[str, str]]:
        async with CriClient.connect(endpoint) as cri:
            rows = await cri.list_containers()
        names = ("io.kubernetes.pod.name", "io.kubernetes.container.name")
        return Counter((r.labels[names[0]], r.labels[names[1]]) for r in rows if r.state == RUNNING)

    return asyncio.run(ask())


def ids(seen: Pod) -> dict[str, str]:
    return {c.name: c.container_id for c in seen.status.container_statuses}


def restarts(seen: Pod) -> int:
    return sum(c.restart_count for c in (*seen.status.container_statuses, *seen.status.init_container_statuses))


def expected(agent: AgentProcess, names: list[str]) -> Counter[tuple[str, str]]:
    """The containers that must run: every one but init containers that end."""
    found: Counter[tuple[str, str]] = Counter()
    for name in names:
        inner = ["one", "two"] if name in STEADY else ["main", "sidecar"] if name.endswith("-rich") else ["main"]
        found.update((f"{name}-{agent.node_name}", each) for each in inner)
    return found


def converge(agent: AgentProcess, names: list[str]) -> float:
    """Seconds until exactly these pods are there and ready."""

    def settled() -> bool:
        pods = agent.pods()
        return set(pods) == set(names) and all(is_ready(each) for each in pods.values())

    return wait_for(settled, 45.0, lambda: f"wanted {names}, there is {agent.pods().keys()}\n{agent.log_tail()}")


def examine(agent: AgentProcess, names: list[str], before: dict[str, dict[str, str]], tally: Tally) -> None:
    """Compare the runtime and the statuses with what must be."""
    have, want = listed(agent.endpoint), expected(agent, names)
    tally.lost += [f"{key}" for key in want - have]
    tally.doubled += [f"{key}" for key, count in have.items() if count > 1]
    # Pods of the round before that were being stopped when the agent died are orphans now.
    wait_for(lambda: not listed(agent.endpoint) - want, 45.0, lambda: f"{listed(agent.endpoint) - want} run on")
    for name, seen in agent.pods().items():
        if restarts(seen) or before.get(name, ids(seen)) != ids(seen):
            tally.restarted.append(f"{name}: {restarts(seen)} restarts, {before.get(name)} -> {ids(seen)}")
        for status in seen.status.container_statuses:
            logs = list(agent.pod_logs.glob(f"*_{seen.metadata.name}_{seen.metadata.uid}/{status.name}/*.log"))
            if len(logs) != 1:
                tally.lost.append(f"log of {name}/{status.name}: {logs}")


def test_thirty_kills(agent: AgentProcess, capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(SEED)
    for name in STEADY:
        agent.write(f"{name}.json", steady(name))
    converge(agent, list(STEADY))
    before = {name: ids(seen) for name, seen in agent.pods().items()}
    tally = Tally()
    current: list[str] = []
    for number in range(ROUNDS):
        for path in agent.manifests.glob("round-*"):
            path.unlink()
        name = f"round-{number}"
        agent.write(f"{name}.json", *churning(name))
        current = [f"{name}-rich", f"{name}-plain", *STEADY]
        time.sleep(rng.uniform(0.0, LATEST_KILL_SECONDS))
        agent.kill()
        agent.start()
        tally.recovery.append(converge(agent, current))
        examine(agent, current, before, tally)
    with capsys.disabled():
        print(f"\n{tally}")
    assert (tally.lost, tally.doubled, tally.restarted) == ([], [], [])
