"""A node under test: a runtime and an agent on small file systems, with programs that can be made to fail. Blocking."""

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.faults import pods
from benchmarks.faults.agents import NodeAgent, OurAgent, PeerAgent
from benchmarks.faults.areas import Area
from benchmarks.faults.judge import VICTIM, ObservedNode, Row, WantedPod, doubles, unsettled
from benchmarks.faults.model import Restarts, Subject
from benchmarks.faults.options import Options
from benchmarks.faults.parts import network_plugin, oci_runtime
from benchmarks.observer import NODE, pod_name
from pykubelet.base.errors import Permanent, PykubeletError
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing import shifted
from pykubelet.testing.containerd import PrivateContainerd
from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.fake_api.thread import FakeApiThread, fake_api_thread
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.nodetraces import NodeTraces
from pykubelet.testing.ociimage import ImageSpec
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.registry import Registry
from pykubelet.testing.runtime import PrivateRuntime
from pykubelet.testing.traces import kill_processes, remove_cgroups, remove_firewall_rules, remove_mounts

_T = TypeVar("_T")
_LIST_SECONDS = 5.0
_POLL_SECONDS = 0.05
_SEED = 11
_CNI_SECONDS = 3.0
"""Deadline of one CNI plugin, if it can be configured."""
_MODULE = "pykubelet.testing.shifted"


@dataclass(frozen=True, slots=True)
class WaitResult:
    """The result of waiting for the desired state."""

    seen: ObservedNode | None
    """The last observed state."""
    seconds: float
    reasons: list[str]
    """The remaining differences from the desired state; empty: it was reached."""
    doubled: list[str]
    """The pods and containers that ran twice meanwhile."""


class Node:
    """A node under test. The runner uses ``start`` and ``destroy``; the faults use the other methods."""

    def __init__(
        self, isolation: Isolation, subject: Subject, options: Options, go_kubelet: Path | None, in_cluster: bool
    ) -> None:
        self.isolation = isolation
        self.subject = subject
        self.options = options
        self.home = isolation.home
        self._stack = contextlib.ExitStack()
        self.cleanups = contextlib.ExitStack()
        """Closed after each try, when the pods that the fault has added are gone."""
        self.chance = random.Random(_SEED)
        self._api = self._stack.enter_context(fake_api_thread()) if in_cluster else None
        self.oci = oci_runtime(self.home / "bin")
        self.plugin = network_plugin(self.home / "plugins")
        self.runtime = self._make_runtime()
        self.agent = self._make_agent(go_kubelet)
        store, state = ("root", "run") if subject is Subject.OURS else ("root", "state")
        agent, runtime = self.agent.home, self.runtime.home
        self.disk = Area(
            self.home / "disk", {"runtime": runtime / store, "agent": agent / "root"}, self.home / "disk.img"
        )
        self.run = Area(self.home / "tmp", {"runtime": runtime / state, "agent": agent / "run"})
        self.log = Area(self.home / "logs", {"agent": agent / "log"})
        self.registry = Registry(self.home)
        self.wanted: dict[str, WantedPod] = {}
        self.complaints: list[str] = []
        """Errors that the current fault has found; counted as lost."""
        self.generation = 0
        self.rolled = 0
        self._fresh = 0
        self._boot_id = ""
        self._runner = self._stack.enter_context(asyncio.Runner())
        self._client: CriClient | None = None
        self._api_pod = ""
        self._extras: list[str] = []
        self._traces: NodeTraces | None = None

    # -- life cycle

    def start(self) -> None:
        """Start a new node without pods, and take a snapshot of the machine."""
        self.notes.mkdir(parents=True, exist_ok=True)
        self.set_clock(0.0)
        self._stack.enter_context(self.registry)
        self.oci.install()
        self.plugin.install()
        for area in (self.disk, self.run, self.log):
            area.mount()
        self.start_runtime()
        self.runtime.load(ImageSpec(pods.IMAGE))
        self.start_agent()
        # The first pod creates permanent resources: the bridge, firewall chains, parent cgroups.
        self.add("first", pods.manifest("plain", "first", str(self.notes)), pods.wanted("plain"))
        for settled in (self.settle(60.0), self.clear(60.0)):
            if settled.reasons:
                raise Permanent(f"a node without faults does not work: {settled.reasons}\n{self.agent.tail()}")
        self._traces = NodeTraces(self.agent, self.runtime, of_runtime=True)

    def destroy(self) -> None:
        """Remove every trace; works after any fault."""
        self.cleanups.close()
        with contextlib.suppress(PykubeletError, OSError):
            self.plugin.install()
            self.oci.install()
        self.agent.destroy()
        self.runtime.destroy()
        kill_processes(self.home)
        for area in (self.disk, self.run, self.log):
            area.unmount()
        remove_mounts(self.home)
        remove_cgroups(self.agent.cgroup_root)
        for image in self.home.glob("*.img"):
            image.unlink()
        if self._client is not None:
            self._runner.run(self._client.close())
        self._stack.close()

    def revive(self) -> list[str]:
        """Start daemons that have ended; returns their names. AssertionError, PykubeletError: one does not come up."""
        ended = []
        if self.runtime.pid() is None:
            ended.append("runtime")
            self.start_runtime()
        if self.agent.pid is None:
            ended.append("agent")
            self.start_agent()
        return ended

    def start_runtime(self) -> None:
        """Start the runtime unless it runs; returns when it responds. PykubeletError: it does not respond."""
        with self._elsewhen():
            self.runtime.start()

    def start_agent(self) -> None:
        """Start the agent unless it runs; returns when it responds. AssertionError: it does not respond."""
        with self._elsewhen():
            self.agent.start()

    @contextlib.contextmanager
    def _elsewhen(self) -> Iterator[None]:
        os.environ[shifted.VARIABLE] = str(self.shift)
        try:
            yield
        finally:
            del os.environ[shifted.VARIABLE]

    def power_off(self) -> None:
        """End all processes at once, as a power loss does; only the disk and the logs are kept."""
        self.agent.kill()
        pid = self.runtime.pid()
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
        for _ in range(3):
            kill_processes(self.home)
            _kill_cgroup(self.agent.cgroup_root)
        subprocess.run(["ip", "link", "delete", self.runtime.bridge], capture_output=True)
        remove_firewall_rules(self.runtime.bridge)
        for area in (self.run, self.disk):
            area.unmount()
        remove_cgroups(self.agent.cgroup_root)

    def power_on(self, boot_id: str) -> None:
        """Mount again and start the daemons."""
        self._boot_id = boot_id
        self.set_clock(0.0)
        for area in (self.disk, self.run):
            area.mount()
        self.start_runtime()
        self.start_agent()

    # -- pods

    @property
    def notes(self) -> Path:
        """Directory in which containers record that they have started."""
        return self.home / "notes"

    @property
    def shift(self) -> Path:
        """File with the clock shift and the boot id of the daemons."""
        return self.home / "shift"

    @property
    def api(self) -> FakeApiThread:
        """The API server of a node in a cluster."""
        assert self._api is not None
        return self._api

    @property
    def in_cluster(self) -> bool:
        return self._api is not None

    def set_clock(self, seconds: float) -> None:
        """Shift the daemons' wall clock."""
        shifted.write_shift(self.shift, seconds, self._boot_id)

    def fresh(self, what: str) -> str:
        """A name that was not used before."""
        self._fresh += 1
        return f"{what}-{self._fresh}"

    @property
    def victim(self) -> str:
        """Name of the victim, the pod that a fault may strike."""
        return f"{VICTIM}-{self.generation}"

    def populate(self) -> None:
        """Create pods of all kinds."""
        self.generation += 1
        self.rolled = 0
        for kind in pods.KEPT:
            self._add_kind(kind, f"{kind}-{self.generation}")
        self.roll()
        if self.in_cluster:
            self.roll_api()

    def roll_api(self) -> None:
        """Replace the rolling pod of the API server by the next one."""
        old, self._api_pod = self._api_pod, self.fresh("api")
        self._unwant(old)
        self.wanted[self._api_pod] = pods.wanted("plain")
        self.api.put_pod(pods.manifest("plain", self._api_pod, str(self.notes)), NODE)

    def _unwant(self, name: str) -> None:
        self.wanted.pop(name, None)
        if self.in_cluster:
            self.api.delete_pod(name)

    def roll(self) -> str:
        """Replace the rolling pod by the next one; returns its name."""
        old = f"{pods.ROLLING}-{self.generation}-{self.rolled}"
        self.rolled += 1
        new = f"{pods.ROLLING}-{self.generation}-{self.rolled}"
        self.remove(old)
        self._add_kind(pods.ROLLING, new)
        return new

    def add(self, name: str, document: Mapping[str, Any], want: WantedPod) -> None:
        """Add a pod; it is kept until ``drop_extras``."""
        self._extras.append(name)
        self.wanted[name] = want
        self.agent.write(name, document)

    def remove(self, name: str) -> None:
        """Remove a pod."""
        self.wanted.pop(name, None)
        self.agent.remove(name)

    def drop_extras(self) -> bool:
        """Remove the pods that ``add`` has added; returns whether there were any."""
        found, self._extras = self._extras, []
        for name in found:
            self.remove(name)
        return bool(found)

    def _add_kind(self, kind: str, name: str) -> None:
        self.wanted[name] = pods.wanted(kind)
        self.agent.write(name, pods.manifest(kind, name, str(self.notes)))

    # -- observation

    def call(self, act: Callable[[CriClient], Awaitable[_T]], seconds: float = _LIST_SECONDS) -> _T:
        """Make a call to the runtime. PykubeletError, TimeoutError."""

        async def work() -> _T:
            client, self._client = self._client or CriClient.connect(self.runtime.endpoint), None
            try:
                async with asyncio.timeout(seconds):
                    result = await act(client)
            except BaseException:
                # A new client connects at once; this one would back off after each failure.
                await client.close()
                raise
            self._client = client
            return result

        return self._runner.run(work())

    def look(self) -> ObservedNode | None:
        """The actual state; None if the runtime does not respond."""

        async def lists(client: CriClient) -> tuple[list[pb.PodSandbox], list[pb.Container]]:
            return list(await client.list_pod_sandboxes()), list(await client.list_containers())

        try:
            boxes, containers = self.call(lists)
        except (PykubeletError, TimeoutError, OSError):
            return None
        ready, stopped = Counter[str](), Counter[str]()
        for box in boxes:
            (ready if box.state == pb.SANDBOX_READY else stopped)[pod_name(box.labels)] += 1
        rows = tuple(
            Row(pod_name(each.labels), each.metadata.name, each.id, each.metadata.attempt, _runs(each))
            for each in containers
        )
        return ObservedNode(ready, stopped, rows, self.agent.statuses(), self._runs())

    def containers(self, pod: str) -> dict[str, str]:
        """Ids of a pod's running containers by name."""
        seen = self.look()
        return {row.name: row.id for row in seen.rows if row.pod == pod and row.running} if seen else {}

    def leaks(self, seconds: float) -> Counter[str]:
        """Leftovers of removed pods by kind and name, after at most ``seconds``."""
        assert self._traces is not None
        deadline = time.monotonic() + seconds
        while (left := self._traces.left()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return Counter({f"{kind}: {name}": count for kind, found in left.items() for name, count in found.items()})

    def settle(self, seconds: float, restarts: Restarts = Restarts.NONE) -> "WaitResult":
        """Wait for the desired state."""
        begin, doubled, seen, reasons = time.monotonic(), set[str](), None, ["the runtime is not responding"]
        while time.monotonic() - begin < seconds * PATIENCE:
            now = self.look()
            if now is not None:
                seen, reasons = now, unsettled(self.wanted, now, restarts, collects_later=self.subject.collects_later)
                doubled.update(doubles(now))
            if not reasons:
                break
            time.sleep(_POLL_SECONDS)
        return WaitResult(seen, time.monotonic() - begin, reasons, sorted(doubled))

    def clear(self, seconds: float) -> "WaitResult":
        """Remove all pods and wait until they are gone."""
        self.agent.clear()
        if self.in_cluster:
            self._unwant(self._api_pod)
        self.wanted.clear()
        self._extras.clear()
        return self.settle(seconds)

    def _runs(self) -> dict[tuple[str, str], int]:
        found = {}
        for path in self.notes.iterdir():
            pod, _, name = path.name.rpartition(".")
            found[pod, name] = path.read_bytes().count(b"run\n")
        return found

    # -- construction

    def _make_runtime(self) -> PrivateRuntime:
        bridge, subnet = self.isolation.bridge, self.isolation.subnet
        if self.subject is Subject.OURS:
            cni = {"bin_dirs": [str(self.plugin.path.parent)], "timeout": _CNI_SECONDS}
            handlers = {"runc": str(self.oci.path)}
            return PrivateCriServer(self.home / "s", bridge, subnet, _MODULE, cni, handlers=handlers)
        return PrivateContainerd(
            self.home / "c", bridge, subnet, cni_bin=str(self.plugin.path.parent), runc=str(self.oci.path)
        )

    def _make_agent(self, go_kubelet: Path | None) -> NodeAgent:
        home, cgroup = self.home / "a", self.isolation.cgroup_root
        if self.subject is Subject.GO:
            assert go_kubelet is not None
            kubeconfig = self._api.kubeconfig(self.home / "kubelet.conf") if self._api is not None else None
            return PeerAgent(go_kubelet, home, self.runtime.socket, cgroup, kubeconfig)
        flags: tuple[str, ...] = ()
        if self._api is not None:
            flags = ("--kubeconfig", str(self._api.kubeconfig(self.home / "kubelet.conf")))
        return OurAgent(home, self.runtime.endpoint, cgroup, _MODULE, flags)


def _runs(row: pb.Container) -> bool:
    return row.state == pb.CONTAINER_RUNNING


def _kill_cgroup(parent: str) -> None:
    """Kill all processes of a cgroup and those below, by every hierarchy."""
    mark = f"{parent}/".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if mark in (entry / "cgroup").read_bytes():
                    os.kill(int(entry.name), signal.SIGKILL)
