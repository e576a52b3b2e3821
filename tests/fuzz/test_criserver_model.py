"""Life cycle of sandboxes and containers against a model: concurrent calls, cancelled clients, kills of servers,
monitors and containers, a full disk, failing system calls, and reboots.

After each round, when the machine is idle: successful calls have taken effect, lists agree with the database and
the machine, and nothing of removed objects is left.
"""

import asyncio
import os
import random
import tempfile
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.base.errors import PykubeletError
from pykubelet.criserver.types import ContainerPhase, ContainerRecord, SandboxPhase, SandboxRecord
from pykubelet.pb import runtime_v1_pb2 as pb
from tests.fuzz.agreement import check_nothing_remains
from tests.fuzz.criserver import Stage, staged
from tests.fuzz.machine import IMAGE
from tests.fuzz.simulation import SimulatedLoop

_EXAMPLES = int(os.environ.get("PYKUBELET_FUZZ_EXAMPLES", "12"))
_PODS, _NAMES = 2, 2
_Record = TypeVar("_Record", SandboxRecord, ContainerRecord)


@dataclass
class Sandbox:
    """A sandbox as the client knows it."""

    id: str
    stop_tried: bool = False
    stopped: bool = False
    remove_tried: bool = False
    removed: bool = False


@dataclass
class Container:
    """A container as the client knows it."""

    id: str
    sandbox: Sandbox
    start_tried: bool = False
    started: bool = False
    stop_tried: bool = False
    update_tried: bool = False
    remove_tried: bool = False
    removed: bool = False
    forgiven: int = 0
    """Starts that a kill of the server may have interrupted, so that the program may begin again."""

    @property
    def going(self) -> bool:
        return self.remove_tried or self.sandbox.remove_tried


@dataclass
class Client:
    """Calls the server and records its replies."""

    stage: Stage
    chance: random.Random
    sandboxes: dict[str, Sandbox] = field(default_factory=dict)
    containers: dict[str, Container] = field(default_factory=dict)
    focus: Sandbox | None = None

    def look_at_one(self) -> None:
        """Choose a sandbox, mostly the same one in a round, so that calls conflict."""
        there = [each for each in self.sandboxes.values() if not each.removed]
        self.focus = self.chance.choice(there) if there else None

    def operation(self, kind: str) -> Callable[[], Awaitable[object]] | None:
        """A call of that kind about an existing object; None if there is none to call it for."""
        sandbox = self.focus
        containers = [each for each in self.containers.values() if each.sandbox is sandbox and not each.removed]
        if self.chance.random() < 0.2 or not containers:
            sandbox = self.chance.choice(list(self.sandboxes.values())) if self.sandboxes else None
            containers = list(self.containers.values())
        container = self.chance.choice(containers[-3:]) if containers else None
        match kind:
            case "run":
                return self._run
            case "create" if sandbox is not None:
                return lambda: self._create(sandbox)
            case "stop-sandbox" | "remove-sandbox" | "update-sandbox" if sandbox is not None:
                return lambda: getattr(self, f"_{kind.replace('-', '_')}")(sandbox)
            case "start" | "stop" | "remove" | "update" | "execute" if container is not None:
                return lambda: getattr(self, f"_{kind}")(container)
            case "exit" | "monitor-dies" if container is not None:
                return lambda: self._event(kind, container)
            case _:
                return None

    def pod_config(self) -> pb.PodSandboxConfig:
        number = self.chance.randrange(_PODS)
        metadata = pb.PodSandboxMetadata(
            name=f"pod-{number}", uid=f"u{number}", namespace="default", attempt=self.chance.randrange(2)
        )
        config = pb.PodSandboxConfig(metadata=metadata, hostname="pod")
        options = config.linux.security_context.namespace_options
        options.pid, options.ipc = pb.CONTAINER, pb.NODE
        return config

    async def _run(self) -> None:
        request = pb.RunPodSandboxRequest(config=self.pod_config())
        made = (await self.calls["RunPodSandbox"](request)).pod_sandbox_id
        self.sandboxes.setdefault(made, Sandbox(made))

    async def _create(self, sandbox: Sandbox) -> None:
        config = pb.ContainerConfig(image=pb.ImageSpec(image=IMAGE))
        config.metadata.name, config.metadata.attempt = f"c{self.chance.randrange(_NAMES)}", self.chance.randrange(2)
        config.linux.security_context.namespace_options.pid = pb.CONTAINER
        request = pb.CreateContainerRequest(pod_sandbox_id=sandbox.id, config=config)
        made = (await self.calls["CreateContainer"](request)).container_id
        self.containers.setdefault(made, Container(made, sandbox))

    async def _stop_sandbox(self, sandbox: Sandbox) -> None:
        sandbox.stop_tried = True
        await self.calls["StopPodSandbox"](pb.StopPodSandboxRequest(pod_sandbox_id=sandbox.id))
        sandbox.stopped = True

    async def _remove_sandbox(self, sandbox: Sandbox) -> None:
        sandbox.stop_tried = sandbox.remove_tried = True
        await self.calls["RemovePodSandbox"](pb.RemovePodSandboxRequest(pod_sandbox_id=sandbox.id))
        sandbox.removed = True

    async def _update_sandbox(self, sandbox: Sandbox) -> None:
        request = pb.UpdatePodSandboxResourcesRequest(pod_sandbox_id=sandbox.id)
        request.resources.cpu_shares = self.chance.randrange(2, 100)
        await self.calls["UpdatePodSandboxResources"](request)

    async def _start(self, container: Container) -> None:
        container.start_tried = True
        await self.calls["StartContainer"](pb.StartContainerRequest(container_id=container.id))
        container.started = True

    async def _stop(self, container: Container) -> None:
        container.stop_tried = True
        request = pb.StopContainerRequest(container_id=container.id, timeout=self.chance.randrange(3))
        await self.calls["StopContainer"](request)

    async def _remove(self, container: Container) -> None:
        container.remove_tried = True
        await self.calls["RemoveContainer"](pb.RemoveContainerRequest(container_id=container.id))
        container.removed = True

    async def _update(self, container: Container) -> None:
        request = pb.UpdateContainerResourcesRequest(container_id=container.id)
        request.linux.cpu_shares = self.chance.randrange(2, 100)
        await self.calls["UpdateContainerResources"](request)

    async def _execute(self, container: Container) -> None:
        await self.calls["ExecSync"](pb.ExecSyncRequest(container_id=container.id, cmd=["true"]))

    async def _event(self, kind: str, container: Container) -> None:
        machine = self.stage.machine
        first = machine.first.get(container.id)
        if first is not None and kind == "exit" and machine.begun.get(container.id):
            first.end(self.chance.choice((0, 3)))
        elif first is not None and kind == "monitor-dies" and first.parent in machine.processes:
            machine.processes[first.parent].end(137)

    @property
    def calls(self) -> dict[str, Callable[[Any], Awaitable[Any]]]:
        return self.stage.calls

    async def listed(self) -> tuple[dict[str, pb.PodSandbox], dict[str, pb.Container]]:
        """The lists of the server."""
        boxes = (await self.calls["ListPodSandbox"](pb.ListPodSandboxRequest())).items
        containers = (await self.calls["ListContainers"](pb.ListContainersRequest())).containers
        return {box.id: box for box in boxes}, {each.id: each for each in containers}

    def server_ended(self) -> None:
        for container in self.containers.values():
            if container.start_tried and not container.started:
                container.forgiven += 1


_KINDS = (
    *("run", "create", "create", "start", "start", "stop", "remove", "update", "update-sandbox", "execute"),
    *("stop-sandbox", "remove-sandbox", "exit", "monitor-dies"),
)


@dataclass(frozen=True)
class Round:
    """Concurrent calls and the end of the server."""

    kinds: tuple[str, ...]
    end: str = ""
    trouble: bool = False
    disk_full: float = 0.0
    """Probability that a write fails because the disk is full."""


_ROUNDS = st.builds(
    Round,
    st.lists(st.sampled_from(_KINDS), min_size=1, max_size=6).map(tuple),
    st.sampled_from(("", "", "", "", "kill", "kill", "stop", "reboot")),
    st.sampled_from((False, False, False, True)),
    st.sampled_from((0.0, 0.0, 0.0, 0.5, 1.0)),
)


@settings(max_examples=_EXAMPLES)
@given(st.integers(0, 1 << 32), st.lists(_ROUNDS, min_size=3, max_size=12))
def test_concurrent_calls_and_kills_leave_server_and_machine_consistent(seed: int, rounds: list[Round]) -> None:
    loop = SimulatedLoop(random.Random(seed))
    with (
        tempfile.TemporaryDirectory() as directory,
        staged(loop, Path(directory)) as stage,
        asyncio.Runner(loop_factory=lambda: loop) as runner,
    ):
        runner.run(_play(stage, rounds))


async def _play(stage: Stage, rounds: list[Round]) -> None:
    client = Client(stage, stage.loop.chance)
    await stage.start()
    try:
        await _do(client, Round(("run", "run")))
        for each in rounds:
            await _do(client, each)
        await _clear(client)
    finally:
        await stage.end(killed=True)


async def _do(client: Client, what: Round) -> None:
    stage, machine = client.stage, client.stage.machine
    machine.trouble, machine.full = (0.15 if what.trouble else 0.0), what.disk_full
    client.look_at_one()
    calls = [stage.call(work, stage.loop.delay()) for work in map(client.operation, what.kinds) if work is not None]
    await asyncio.sleep(stage.loop.delay())
    if calls and client.chance.random() < 0.3:
        client.chance.choice(calls).cancel()
    if what.end:
        await asyncio.sleep(stage.loop.delay())
        client.server_ended()
        await stage.end(killed=what.end != "stop")
        if what.end == "reboot":
            await machine.reboot()
        machine.trouble, machine.full = 0.0, 0.0
        await stage.start()
        await stage.settled()
        await _adopt(client, lost=what.disk_full > 0, reboot=what.end == "reboot")
    for outcome in await asyncio.gather(*calls, return_exceptions=True):
        _check_outcome(outcome)
    await stage.settled()
    machine.trouble, machine.full = 0.0, 0.0
    await stage.store._writer.change(lambda connection: None)
    await _check(client)


def _check_outcome(outcome: object) -> None:
    """AssertionError if a refusal was not expected."""
    if isinstance(outcome, Exception) and not isinstance(outcome, PykubeletError):
        raise outcome


async def _adopt(client: Client, *, lost: bool, reboot: bool) -> None:
    """Update the client from the lists: the reply to a creation may have been lost with its caller or the server.

    ``lost``: the disk was full, so the server may have lost the most recent changes.
    """
    boxes, containers = await client.listed()
    for box in boxes:
        client.sandboxes.setdefault(box, Sandbox(box))
    for identity, each in containers.items():
        client.containers.setdefault(identity, Container(identity, client.sandboxes[each.pod_sandbox_id]))
    for sandbox in client.sandboxes.values():
        sandbox.stop_tried |= reboot
        sandbox.removed &= not (lost and sandbox.id in boxes)
    for container in client.containers.values():
        container.removed &= not (lost and container.id in containers)
        container.started &= not lost
        container.forgiven += lost


async def _check(client: Client) -> None:
    stage, machine = client.stage, client.stage.machine
    await _adopt(client, lost=False, reboot=False)
    boxes, containers = await client.listed()
    known = {each.id: each for each in stage.sandboxes.table}
    held = {each.id: each for each in stage.containers.table}
    sandbox_rows, container_rows = await stage.rows()
    # Rows of containers are deleted with their sandbox's; an incomplete creation may have none.
    going = {key for key, each in known.items() if each.record.phase is SandboxPhase.REMOVING}
    assert _whole(sandbox_rows) == _whole({key: each.record for key, each in known.items()})
    assert _whole(container_rows, going) == _whole({key: each.record for key, each in held.items()}, going)
    for box in known.values():
        if box.ready:
            assert box.id in machine.namespaces and box.id in machine.attached
    for key, each in held.items():
        first = machine.first.get(key)
        lives = first is not None and first.alive
        assert each.running == (lives and not (stage.settings.runtime_root("runc") / key / "exec.fifo").exists()), (
            f"{key} is {each.record.phase}, its program {'runs' if lives else 'does not run'}"
        )
        assert not lives or each.record.phase in (ContainerPhase.RUNNING, ContainerPhase.CREATED)
    check_nothing_remains(stage, known, held)
    for sandbox in client.sandboxes.values():
        _check_sandbox(client, sandbox, boxes)
    for container in client.containers.values():
        _check_container(client, container, containers)


def _whole(rows: Mapping[str, _Record], going: Collection[str] = ()) -> dict[str, _Record]:
    return {key: each for key, each in rows.items() if each.phase != "making" and _sandbox(each) not in going}


def _sandbox(record: SandboxRecord | ContainerRecord) -> str:
    return record.sandbox_id if isinstance(record, ContainerRecord) else ""


def _check_sandbox(client: Client, sandbox: Sandbox, boxes: dict[str, pb.PodSandbox]) -> None:
    machine = client.stage.machine
    if sandbox.removed:
        assert sandbox.id not in boxes
        assert sandbox.id not in machine.attached
    elif not sandbox.remove_tried:
        assert sandbox.id in boxes, "it was lost"
        assert sandbox.stop_tried or boxes[sandbox.id].state == pb.SANDBOX_READY
    if sandbox.stopped:
        assert sandbox.id not in boxes or boxes[sandbox.id].state == pb.SANDBOX_NOTREADY
        assert sandbox.id not in machine.namespaces | machine.attached
        for container in client.containers.values():
            first = machine.first.get(container.id)
            if container.sandbox is sandbox and first is not None:
                assert not first.alive, "it runs in a sandbox that was stopped"


def _check_container(client: Client, container: Container, containers: dict[str, pb.Container]) -> None:
    begun = client.stage.machine.begun.get(container.id, 0)
    assert begun <= 1 + container.forgiven, "its program ran twice"
    assert container.start_tried or begun == 0, "it was not started"
    if container.removed or container.sandbox.removed:
        assert container.id not in containers
    elif not container.going:
        assert container.id in containers, "it was lost"
        if container.started:
            assert begun
            assert containers[container.id].state in (pb.CONTAINER_RUNNING, pb.CONTAINER_EXITED)


async def _clear(client: Client) -> None:
    """Remove everything. Nothing may be left, also after a restart of the server."""
    stage = client.stage
    boxes, _ = await client.listed()
    for box in boxes:
        await stage.call(lambda: client._stop_sandbox(client.sandboxes[box]))  # noqa: B023 - awaited at once
        await stage.call(lambda: client._remove_sandbox(client.sandboxes[box]))  # noqa: B023
    assert await client.listed() == ({}, {})
    await stage.end(killed=True)
    await stage.start()
    await stage.settled()
    assert await client.listed() == ({}, {})
    assert await stage.rows() == ({}, {})
    check_nothing_remains(stage, (), ())
    assert stage.machine.attached == set()
