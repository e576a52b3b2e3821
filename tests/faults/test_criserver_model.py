"""Random concurrent calls about a few pods on the real runtime, with kills of the server.

After each round the server's lists agree with its replies, with the OCI runtime, and with the running processes; after
the removal of all pods nothing is left. ``tests/fuzz/test_criserver_model.py`` does the same on a simulated machine,
with far more rounds.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from pykubelet.base.errors import PykubeletError
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.types.ids import ContainerID, SandboxID
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.killstage import NEVER, Pod, Stage
from pykubelet.testing.leakcheck import snapshot
from pykubelet.testing.patience import PATIENCE

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.slow, pytest.mark.timeout(1800)]

_CALLS = 6
_AGREE_SECONDS = 15 * PATIENCE


@dataclass
class _Pods:
    """The sandboxes and containers that the client knows."""

    stage: Stage
    luck: random.Random
    sandboxes: dict[str, Pod] = field(default_factory=dict)
    containers: dict[str, str] = field(default_factory=dict)
    """Sandbox id by container id."""
    stopped: set[str] = field(default_factory=set)
    going: set[str] = field(default_factory=set)
    """Sandboxes and containers whose removal was requested."""
    gone: set[str] = field(default_factory=set)
    number: int = 0

    async def round(self, client: CriClient) -> None:
        """Make several concurrent calls; refused and interrupted calls are ignored."""
        works = [self._chosen(client) for _ in range(_CALLS)]
        for outcome in await asyncio.gather(*(work() for work in works), return_exceptions=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, PykubeletError | ConnectionError):
                raise outcome

    def _chosen(self, client: CriClient) -> Callable[[], Awaitable[None]]:
        sandbox = self.luck.choice([each for each in self.sandboxes if each not in self.gone] or [""])
        container = self.luck.choice([key for key, each in self.containers.items() if each == sandbox] or [""])
        kind = self.luck.choice(("create", "create", "start", "start", "stop", "remove", "stop-pod", "remove-pod"))
        if not sandbox or len(self.sandboxes) - len(self.gone) < 2:
            return lambda: self._run(client)
        match kind:
            case "create":
                return lambda: self._create(client, sandbox)
            case "start" if container:
                return lambda: client.start_container(ContainerID(container))
            case "stop" if container:
                return lambda: client.stop_container(ContainerID(container), self.luck.choice((0, 1)))
            case "remove" if container:
                return lambda: self._remove(client, container)
            case "remove-pod":
                return lambda: self._remove_pod(client, sandbox)
            case _:
                return lambda: self._stop_pod(client, sandbox)

    async def _run(self, client: CriClient) -> None:
        self.number += 1
        pod = Pod(self.stage, f"lots-{self.number}")
        self.sandboxes[await client.run_pod_sandbox(_sandbox_config(pod))] = pod

    async def _create(self, client: CriClient, sandbox: str) -> None:
        self.number += 1
        pod = self.sandboxes[sandbox]
        config = pod.container_config()
        config.metadata.name, config.log_path = f"c{self.number}", f"c{self.number}.log"
        config.ClearField("command")
        config.command.extend(("sleep", "600"))
        made = await client.create_container(SandboxID(sandbox), config, _sandbox_config(pod))
        self.containers[made] = sandbox

    async def _remove(self, client: CriClient, container: str) -> None:
        self.going.add(container)
        await client.remove_container(ContainerID(container))
        self.gone.add(container)

    async def _stop_pod(self, client: CriClient, sandbox: str) -> None:
        self.going.add(f"ready {sandbox}")
        await client.stop_pod_sandbox(SandboxID(sandbox))
        self.stopped.add(sandbox)

    async def _remove_pod(self, client: CriClient, sandbox: str) -> None:
        self.going |= {f"ready {sandbox}", sandbox}
        await client.remove_pod_sandbox(SandboxID(sandbox))
        self.gone.add(sandbox)

    async def agree(self, client: CriClient) -> None:
        """The server's lists agree with its replies and with the machine."""
        deadline = asyncio.get_running_loop().time() + _AGREE_SECONDS
        while wrong := await self._disagreements(client):
            assert asyncio.get_running_loop().time() < deadline, wrong
            await asyncio.sleep(0.1)

    async def _disagreements(self, client: CriClient) -> list[str]:
        boxes = {box.id: box for box in await client.list_pod_sandboxes()}
        containers = {each.id: each for each in await client.list_containers()}
        for key, box in boxes.items():
            self.sandboxes.setdefault(key, Pod(self.stage, box.metadata.name))
        for key, each in containers.items():
            self.containers.setdefault(key, each.pod_sandbox_id)
        wrong = [f"{key} was removed" for key in self.gone if key in boxes or key in containers]
        wrong += [f"sandbox {key} was lost" for key in self.sandboxes if key not in self.going and key not in boxes]
        for key, sandbox in self.containers.items():
            if sandbox in self.gone and key in containers:
                wrong.append(f"container {key} outlived its sandbox")
            if not {key, sandbox} & self.going and key not in containers:
                wrong.append(f"container {key} was lost")
        for key, box in boxes.items():
            if (box.state == pb.SANDBOX_READY) != (key not in self.stopped) and f"ready {key}" not in self.going:
                wrong.append(f"sandbox {key} is {box.state}")
            if key in self.stopped and box.state == pb.SANDBOX_READY:
                wrong.append(f"sandbox {key} was stopped")
        return wrong + self._differences(boxes.keys(), containers)

    def _differences(self, boxes: object, containers: dict[str, pb.Container]) -> list[str]:
        run = self.stage.server.home / "run"
        wrong = []
        for directory in (run / "bundles", *(run / "oci").iterdir()):
            wrong += [f"{path} belongs to none" for path in directory.iterdir() if path.name not in containers]
        for key, each in containers.items():
            program = [line for line in self.stage.commands(key) if line.startswith("sleep")]
            if (each.state == pb.CONTAINER_RUNNING) != bool(program):
                wrong.append(f"container {key} is {each.state}, and {program or 'nothing'} runs")
            if program and each.pod_sandbox_id in self.stopped:
                wrong.append(f"container {key} runs in a stopped sandbox")
        return wrong

    async def clear(self, client: CriClient) -> None:
        """Remove all pods."""
        for box in await client.list_pod_sandboxes():
            await client.stop_pod_sandbox(SandboxID(box.id))
            await client.remove_pod_sandbox(SandboxID(box.id))
        assert not await client.list_pod_sandboxes()
        assert not await client.list_containers()


def test_concurrent_calls_and_kills_leave_lists_and_machine_consistent(
    stage: Stage, kills: int, luck: random.Random
) -> None:
    first = Pod(stage, "first-of-lots")
    stage.do(first.up)
    stage.do(first.down)
    before = snapshot(stage.scope)
    pods = _Pods(stage, luck)
    died, steps, rounds = 0, 2, 0
    while died < kills:
        # Every other round is not interrupted, and gives the number of steps of a round. The calls of the next round
        # are others, which may take fewer steps: then it is not interrupted either.
        assert rounds < 20 * kills, f"the steps are counted wrongly: {died} kills in {rounds} rounds"
        died += stage.killed(pods.round, luck.randrange(1, steps) if rounds % 2 else NEVER)
        if rounds % 2 == 0:
            steps = max(2, int(stage.last_step().split()[0]))
        rounds += 1
        stage.server.start()
        stage.do(pods.agree)
    stage.do(pods.clear)
    stage.assert_no_leaks(before)
    print(f"{rounds} rounds, {died} kills, {pods.number} sandboxes and containers: 0 lost, 0 left")


def _sandbox_config(pod: Pod) -> pb.PodSandboxConfig:
    config = pod.sandbox_config()
    config.ClearField("port_mappings")
    return config
