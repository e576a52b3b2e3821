"""Compare ``pykubelet criserver`` with containerd: the same calls, alternately, with the same OCI runtime and image.

``cri.one.CALL``: one pod at a time; ``cri.30.CALL``: 30 pods at once; ``cri.shared.CALL``: one at a time, with a PID
namespace that the pod's containers share; ``cri.shim.CALL``: one at a time, our server with containerd's own shim as
handler. ``start`` is RunPodSandbox, CreateContainer and StartContainer together.
``cri.100.memory``: memory (PSS) of the daemon and of the monitors or shims with their infra processes, with 100 pods;
``cri.100.cpu``: their CPU usage while idle; ``cri.100.daemon_memory``: memory of the daemon alone.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.figures import CONTAINERD, SERVER, Figure
from benchmarks.manifests import IMAGE
from benchmarks.observer import remove_sandboxes
from benchmarks.plan import Plan
from benchmarks.usage import sum_of, usage
from benchmarks.world import SHIM, World
from pykubelet.base.errors import Permanent
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.types.ids import ContainerID, SandboxID
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.runtime import PrivateRuntime

_PROGRAM = "trap 'exit 0' TERM; while :; do sleep 1000000 & wait $!; done"
_GRACE = 10.0
_WARM_UP = 2
_PAUSE = b"2147483647"
"""Argument of ``sleep`` in the command line of the private containerd's pause image."""
_T = TypeVar("_T")
_numbers = count()


@dataclass
class _Side:
    """One runtime, and the milliseconds that each call took."""

    label: str
    runtime: PrivateRuntime
    client: CriClient
    cgroup: str
    logs: Path
    handler: str = ""
    taken: dict[str, list[float]] = field(default_factory=dict)

    async def timed(self, call: str, work: Coroutine[Any, Any, _T]) -> _T:
        begin = time.perf_counter()
        result = await work
        self.taken.setdefault(call, []).append(1e3 * (time.perf_counter() - begin))
        return result

    async def start(self, shared: bool = False) -> tuple[SandboxID, ContainerID]:
        """Start one pod."""
        sandbox_config, container_config = self._configs(shared)
        begin = time.perf_counter()
        sandbox = await self.timed("RunPodSandbox", self.client.run_pod_sandbox(sandbox_config, self.handler))
        create = self.client.create_container(sandbox, container_config, sandbox_config)
        container = await self.timed("CreateContainer", create)
        await self.timed("StartContainer", self.client.start_container(container))
        self.taken.setdefault("start", []).append(1e3 * (time.perf_counter() - begin))
        return sandbox, container

    async def end(self, sandbox: SandboxID, container: ContainerID) -> None:
        """Stop and remove a pod with the calls of a kubelet."""
        await self.timed("StopContainer", self.client.stop_container(container, _GRACE))
        await self.timed("StopPodSandbox", self.client.stop_pod_sandbox(sandbox))
        await self.timed("RemovePodSandbox", self.client.remove_pod_sandbox(sandbox))

    def figures(self, group: str) -> list[Figure]:
        """The figures measured since the last call."""
        taken, self.taken = self.taken, {}
        return [Figure(f"cri.{group}.{call}", self.label, "ms", tuple(values)) for call, values in taken.items()]

    def _configs(self, shared: bool) -> tuple[pb.PodSandboxConfig, pb.ContainerConfig]:
        name = f"cri-{next(_numbers)}"
        options = pb.NamespaceOption(pid=pb.POD if shared else pb.CONTAINER)
        (self.logs / name).mkdir(parents=True, exist_ok=True)
        sandbox = pb.PodSandboxConfig(
            metadata=pb.PodSandboxMetadata(name=name, namespace="bench", uid=name),
            hostname=name,
            log_directory=str(self.logs / name),
            linux=pb.LinuxPodSandboxConfig(
                cgroup_parent=f"{self.cgroup}/{name}",
                security_context=pb.LinuxSandboxSecurityContext(namespace_options=options),
            ),
        )
        container = pb.ContainerConfig(
            metadata=pb.ContainerMetadata(name="main"),
            image=pb.ImageSpec(image=IMAGE),
            command=["/bin/sh", "-c", _PROGRAM],
            log_path="main.log",
            linux=pb.LinuxContainerConfig(
                security_context=pb.LinuxContainerSecurityContext(namespace_options=options),
            ),
        )
        return sandbox, container


async def compare(made: World, plan: Plan, figures: list[Figure], say: Callable[[str], None]) -> None:
    """Take all figures ``cri.…``."""
    async with CriClient.connect(made.server.endpoint) as ours, CriClient.connect(made.bare.endpoint) as theirs:
        sides = (
            _Side(SERVER, made.server, ours, f"{made.bare_cgroup}/ours", made.bare_directory / "ours"),
            _Side(CONTAINERD, made.bare, theirs, f"{made.bare_cgroup}/theirs", made.bare_directory / "theirs"),
        )
        for group, shared in (("one", False), ("shared", True)):
            await _in_turn(sides, plan.one_at_a_time, shared, lambda text: say(f"runtimes: {text}"))
            figures += [figure for side in sides for figure in side.figures(group)]
        shim = replace(sides[0], handler=SHIM, taken={})
        await _in_turn((shim, sides[1]), plan.one_at_a_time, False, lambda text: say(f"runtimes, same shim: {text}"))
        figures += [figure for side in (shim, sides[1]) for figure in side.figures("shim")]
        many = plan.at_once[0]
        for _ in range(plan.cri_rounds):
            for side in sides:
                say(f"{side.label}: {many} pods at once")
                pods = await _all([side.start() for _ in range(many)])
                await _all([side.end(*pod) for pod in pods])
        figures += [figure for side in sides for figure in side.figures(str(many))]
        for side in sides:
            figures += await _idle(side, plan, say)


async def _in_turn(sides: Sequence[_Side], times: int, shared: bool, say: Callable[[str], None]) -> None:
    for number in range(times + _WARM_UP):
        for side in sides:
            say(f"pod {number + 1 - _WARM_UP} of {times}{', shared PID namespace' if shared else ''}")
            if number == _WARM_UP:
                side.taken.clear()
            await side.end(*await side.start(shared))


async def _idle(side: _Side, plan: Plan, say: Callable[[str], None]) -> list[Figure]:
    """Measure memory and CPU with many idle pods."""
    pods = plan.idle_pods[-1]
    say(f"{side.label}: {pods} pods, {plan.settle_seconds + plan.idle_seconds:.0f} s of nothing")
    for _ in range(0, pods, 10):
        await _all([side.start() for _ in range(10)])
    side.taken.clear()
    await asyncio.sleep(plan.settle_seconds)
    daemon = side.runtime.pid()
    if daemon is None:
        raise Permanent(f"{side.label} has ended; see its log")
    processes = [daemon, *helpers(side.runtime)]
    begin, before = time.monotonic(), sum_of(processes)
    await asyncio.sleep(plan.idle_seconds)
    after, took = sum_of(processes), time.monotonic() - begin
    say(f"{side.label}: removing {pods} pods")
    alone = usage(daemon)
    await remove_sandboxes(side.client)
    values = {
        "memory": ("MiB", after.pss_mib),
        "daemon_memory": ("MiB", alone.pss_mib),
        "cpu": ("%", 100 * (after.cpu_seconds - before.cpu_seconds) / took),
    }
    return [Figure(f"cri.{pods}.{key}", side.label, unit, (value,)) for key, (unit, value) in values.items()]  # type: ignore[arg-type]


def helpers(runtime: PrivateRuntime) -> list[int]:
    """The monitors or shims of a runtime's pods, and their infra processes."""
    marks = [mark.encode() for mark in runtime.traces().process_marks]
    found, parents = set(), {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        if any(mark in command for mark in marks):
            found.add(int(entry.name))
        if _PAUSE in command or b"catatonit" in command:
            parents[int(entry.name)] = parent
    return [*found, *(pid for pid, parent in parents.items() if parent in found)]


async def _all(works: Sequence[Coroutine[Any, Any, _T]]) -> list[_T]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work, name="pod") for work in works]
    return [task.result() for task in tasks]
