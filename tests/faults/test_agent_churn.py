"""Kills of the agent at random moments during many starts and stops: nothing is restarted, duplicated, lost or leaked.

The agent is killed again before it has recovered from the last kill, and sometimes stopped regularly.
Every container records each of its runs on the host, which is correct even if agent and runtime are wrong. On
containerd one exception is allowed: a start that was in progress when the agent was killed is undone and repeated.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.models.core_v1 import Pod
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.agent import AgentProcess, container_status, is_ready, wait_for
from pykubelet.testing.nodetraces import NodeTraces
from pykubelet.testing.runtime import PrivateRuntime
from tests.faults.containerdlog import CallLog, end_lost_shims, end_stuck_containers
from tests.manifests import Json, config_map, container, mount, pod, sh

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.slow]

_ENDS = 30
_MOST_PODS = 10
_LONGEST_PAUSE = 0.9
_SETTLE_SECONDS = 60.0
_HOUSEKEEPING_SECONDS = 75.0
"""Time for housekeeping: it searches orphans every 10 s, dead sandboxes of running pods every minute."""


@dataclass
class Verdict:
    """Errors by pod and container."""

    lost: set[str] = field(default_factory=set)
    doubled: set[str] = field(default_factory=set)
    restarted: set[str] = field(default_factory=set)
    odd: set[str] = field(default_factory=set)
    """Leftovers of interrupted operations on pods that run correctly: sandboxes, containers, log files."""

    def __bool__(self) -> bool:
        return bool(self.lost or self.doubled or self.restarted or self.odd)

    def __str__(self) -> str:
        parts = (f"{name}={len(found)}" for name, found in vars(self).items())
        details = (f"\n  {name}: {each}" for name, found in vars(self).items() for each in sorted(found))
        return " ".join(parts) + "".join(details)


def _manifest(name: str, kind: int, notes: Path) -> list[Json]:
    """A pod of one of several kinds that together use all resources that can leak."""

    def noting(container_name: str, script: str) -> Json:
        note = f"echo run >>/notes/{name}.{container_name}"
        return container(container_name, sh(f"{note}; {script}"), volumeMounts=[mount("notes", "/notes")])

    def staying(container_name: str) -> Json:
        return noting(container_name, "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done")

    volumes: list[Json] = [{"name": "notes", "hostPath": {"path": str(notes)}}]
    settings: Json = {"volumes": volumes}
    containers = [staying("main")]
    others: list[Json] = []
    match kind % 4:
        case 0:
            settings["initContainers"] = [noting("init", "sleep 0.2"), {**staying("side"), "restartPolicy": "Always"}]
        case 1:
            volumes += [{"name": "disk", "emptyDir": {}}, {"name": "memory", "emptyDir": {"medium": "Memory"}}]
            containers[0]["volumeMounts"] += [mount("disk", "/disk", subPath="a"), mount("memory", "/memory")]
        case 2:
            others.append(config_map(name, {"key": "value"}))
            volumes.append({"name": "map", "configMap": {"name": name}})
            containers[0]["volumeMounts"].append(mount("map", "/map"))
            containers.append(staying("second"))
        case _:
            containers[0]["lifecycle"] = {
                "postStart": {"exec": {"command": sh("sleep 0.1")}},
                "preStop": {"exec": {"command": sh("sleep 0.3")}},
            }
    return [*others, pod(name, *containers, **settings)]


class Churn:
    """Adds and removes pods for a given time, and records which are desired."""

    def __init__(self, agent: AgentProcess, notes: Path, seed: int) -> None:
        self._agent = agent
        self._random = random.Random(seed)
        self._made = 0
        self.notes = notes
        self.wanted: dict[str, list[Json]] = {}
        self.first_ids: dict[tuple[str, str], str] = {}
        """Id of each container when it was first observed running."""

    def step(self) -> None:
        """Remove up to two pods and add up to three."""
        for name in self._random.sample(sorted(self.wanted), min(len(self.wanted), self._random.randint(0, 2))):
            del self.wanted[name]
            (self._agent.manifests / f"{name}.json").unlink()
        for _ in range(min(self._random.randint(1, 3), _MOST_PODS - len(self.wanted))):
            self._made += 1
            name = f"churn-{self._made}"
            self.wanted[name] = _manifest(name, self._made, self.notes)
            self._agent.write(f"{name}.json", *self.wanted[name])

    def pause(self) -> None:
        """Wait for a random time."""
        time.sleep(self._random.uniform(0, _LONGEST_PAUSE))

    def look(self) -> None:
        """Record the ids of running containers."""
        for name, seen in self._agent.pods().items():
            for status in (*seen.status.init_container_statuses, *seen.status.container_statuses):
                if status.state and status.state.running:
                    self.first_ids.setdefault((name, status.name), status.container_id)

    def settled(self) -> bool:
        """Whether the desired pods, and no others, exist and are ready."""
        pods = self._agent.pods()
        return pods.keys() == self.wanted.keys() and all(map(is_ready, pods.values()))

    def runs(self, name: str, container_name: str) -> int:
        """Number of runs of a container, by its own records."""
        note = self.notes / f"{name}.{container_name}"
        return note.read_text().count("run") if note.exists() else 0


@pytest.fixture
def churn(agent: AgentProcess, tmp_path: Path) -> Iterator[Churn]:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    churn = Churn(agent, tmp_path, seed)
    yield churn
    for name in churn.wanted:
        (agent.manifests / f"{name}.json").unlink(missing_ok=True)


@pytest.mark.timeout(480)
def test_agent_killed_thirty_times_loses_nothing(agent: AgentProcess, daemon: PrivateRuntime, churn: Churn) -> None:
    traces = NodeTraces(agent, daemon)
    slowest = 0.0
    for number in range(1, _ENDS + 1):
        churn.step()
        churn.pause()
        if number % 5:
            agent.kill()
        else:
            assert agent.stop() == 0
        start = time.monotonic()
        agent.start()
        slowest = max(slowest, time.monotonic() - start)
        churn.look()
        if number % 10 == 0:
            took = _wait_settled(agent, daemon, churn)
            verdict = _final_verdict(agent, daemon, churn)
            print(f"after {number} ends: settled in {took:.1f} s with {len(churn.wanted)} pods; {verdict}")
            assert not verdict, str(verdict)
    for name in list(churn.wanted):
        del churn.wanted[name]
        (agent.manifests / f"{name}.json").unlink()
    _wait_settled(agent, daemon, churn)
    left = traces.wait_none_left()
    lost = end_lost_shims(daemon) if left else 0
    print(f"agent ready again within {slowest:.1f} s; shims lost by containerd: {lost}")
    traces.assert_none_left()


def _wait_settled(agent: AgentProcess, daemon: PrivateRuntime, churn: Churn) -> float:
    """Wait until the desired pods, and no others, are ready; return the seconds that it took.

    Pods that containerd's own fault holds up are given a second chance, after their programs were killed.
    """
    begun = time.monotonic()
    try:
        wait_for(churn.settled, _SETTLE_SECONDS, lambda: _unsettled(agent, churn))
    except AssertionError:
        stuck = end_stuck_containers(daemon)
        if not stuck:
            raise
        print(f"containers that containerd could neither stop nor remove: {stuck}")
        wait_for(churn.settled, _SETTLE_SECONDS, lambda: _unsettled(agent, churn))
    return time.monotonic() - begun


def _unsettled(agent: AgentProcess, churn: Churn) -> str:
    pods = agent.pods()
    missing = sorted(churn.wanted.keys() - pods.keys())
    extra = sorted(pods.keys() - churn.wanted.keys())
    unready = [str(seen.status) for seen in pods.values() if not is_ready(seen)]
    return f"missing {missing}, extra {extra}, not ready {unready}\n{agent.log_tail(20000)}"


def _final_verdict(agent: AgentProcess, daemon: PrivateRuntime, churn: Churn) -> Verdict:
    """The verdict after a cycle of housekeeping; losses, duplicates and restarts do not disappear by then."""
    deadline = time.monotonic() + _HOUSEKEEPING_SECONDS
    while (verdict := asyncio.run(_judge(agent, daemon, churn))).odd and time.monotonic() < deadline:
        time.sleep(0.5)
    return verdict


async def _judge(agent: AgentProcess, daemon: PrivateRuntime, churn: Churn) -> Verdict:
    """Compare the desired pods with the runtime, the containers' own records and the log directories."""
    async with CriClient.connect(daemon.endpoint) as client:
        sandboxes = await client.list_pod_sandboxes()
        rows = await client.list_containers()
    verdict = Verdict()
    calls = CallLog.of_daemon(daemon)
    rows = [row for row in rows if row.id not in calls.stuck]
    pods = agent.pods()
    for name, seen in pods.items():
        own = [row for row in rows if row.labels["io.kubernetes.pod.uid"] == seen.metadata.uid]
        boxes = [box for box in sandboxes if box.labels["io.kubernetes.pod.uid"] == seen.metadata.uid]
        if [box.state for box in boxes] != [pb.SANDBOX_READY]:
            verdict.odd.add(f"{name}: {len(boxes)} sandboxes")
        _judge_pod(seen, own, calls, churn, verdict)
        _judge_logs(agent, seen, verdict)
    known = {seen.metadata.uid for seen in pods.values()}
    owners = [row.labels["io.kubernetes.pod.uid"] for row in rows]
    owners += [box.labels["io.kubernetes.pod.uid"] for box in sandboxes if box.id not in calls.stuck.values()]
    verdict.odd |= {f"the runtime has pod {uid}" for uid in owners if uid not in known}
    directories = {path.name for path in (agent.root / "pods").iterdir()}
    stuck = {calls.sandboxes.get(box, "") for box in calls.stuck.values()}
    verdict.odd |= {f"directory of pod {uid}" for uid in directories - known - stuck}
    return verdict


def _judge_pod(seen: Pod, rows: list[pb.Container], calls: CallLog, churn: Churn, verdict: Verdict) -> None:
    name = seen.metadata.name.rpartition("-")[0]
    counts = Counter(row.metadata.name for row in rows)
    for each in (*seen.spec.init_containers, *seen.spec.containers):
        what = f"{name}/{each.name}"
        status = container_status(seen, each.name)
        runs, starts = churn.runs(name, each.name), calls.of(seen.metadata.uid, each.name)
        if runs == 0:
            verdict.lost.add(what)
        if len(starts.acknowledged) > 1 or runs > 1 + len(starts.broken_off):
            verdict.doubled.add(f"{what}: ran {runs} times, {starts}")
        if counts[each.name] != 1:
            verdict.odd.add(f"{what}: {counts[each.name]} containers")
        first = churn.first_ids.get((name, each.name), status.container_id)
        changed = first != status.container_id and first.rpartition("/")[2] in starts.acknowledged
        if status.restart_count or changed:
            verdict.restarted.add(f"{what}: restart count {status.restart_count}, {first} became {status.container_id}")


def _judge_logs(agent: AgentProcess, seen: Pod, verdict: Verdict) -> None:
    directory = agent.pod_logs / f"default_{seen.metadata.name}_{seen.metadata.uid}"
    for each in (*seen.spec.init_containers, *seen.spec.containers):
        files = sorted(path.name for path in (directory / each.name).glob("*"))
        if files != ["0.log"]:
            verdict.odd.add(f"{seen.metadata.name}/{each.name}: log files {files}")


def test_a_clean_stop_leaves_everything_running(agent: AgentProcess, daemon: PrivateRuntime, churn: Churn) -> None:
    churn.step()
    wait_for(churn.settled, 20, lambda: _unsettled(agent, churn))
    churn.look()
    assert agent.stop() == 0
    agent.start()
    wait_for(churn.settled, 20, lambda: _unsettled(agent, churn))
    verdict = _final_verdict(agent, daemon, churn)
    assert not verdict, str(verdict)


async def _has_exited(daemon: PrivateRuntime, identity: str) -> bool:
    async with CriClient.connect(daemon.endpoint) as client:
        return any(row.id == identity and row.state == pb.CONTAINER_EXITED for row in await client.list_containers())


def test_changes_while_the_agent_is_down_are_reconciled(agent: AgentProcess, daemon: PrivateRuntime) -> None:
    """While the agent is down, one manifest is removed, one is added, and one container exits."""
    agent.write("stays.json", pod("stays"))
    agent.write("goes.json", pod("goes"))
    agent.write("ends.json", pod("ends", container(command=["sleep", "2"]), restartPolicy="Never"))
    stays, goes, ends = agent.wait_running("stays", "goes", "ends")
    agent.kill()
    (agent.manifests / "goes.json").unlink()
    agent.write("comes.json", pod("comes"))
    identity = container_status(ends).container_id.rpartition("/")[2]
    wait_for(lambda: asyncio.run(_has_exited(daemon, identity)), 20, lambda: "the container runs on")
    agent.start()
    agent.wait_running("stays", "comes")
    ended = agent.wait_pod("ends", lambda p: p.status.phase == "Succeeded")
    assert container_status(ended).restart_count == 0
    wait_for(lambda: not (agent.root / "pods" / goes.metadata.uid).exists(), 20, agent.log_tail)
    assert "goes" not in agent.pods()
    assert container_status(agent.pod("stays")).container_id == container_status(stays).container_id
    for name in ("stays", "ends", "comes"):
        (agent.manifests / f"{name}.json").unlink()
