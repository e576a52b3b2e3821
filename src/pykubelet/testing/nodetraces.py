"""Check that the pods of one agent left nothing on the machine."""

import time
from collections import Counter
from pathlib import Path
from typing import Protocol

from pykubelet.testing.leakcheck import Kind, Scope, Snapshot, snapshot
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.runtime import PrivateRuntime

_GRACE_SECONDS = 10.0 * PATIENCE
_KEPT_CGROUPS = ("/kubepods", "/kubepods/burstable", "/kubepods/besteffort")
_CNI_RESULTS = Path("/var/lib/cni/results")


class TracedAgent(Protocol):
    """An agent whose leftovers are checked: ``AgentProcess``, or another kubelet."""

    @property
    def home(self) -> Path:
        """The agent's directory; its logs are in ``log``."""
        ...

    @property
    def root(self) -> Path: ...

    @property
    def cgroup_root(self) -> str: ...


class NodeTraces:
    """Takes a snapshot of a node without pods when constructed, and compares later snapshots with it."""

    def __init__(self, agent: TracedAgent, runtime: PrivateRuntime, *, of_runtime: bool = False) -> None:
        """``of_runtime``: also count the resources that containerd is known to leak by itself."""
        traces = runtime.traces()
        self._bridge = runtime.bridge
        # containerd 1.6 leaks the rules of a sandbox if the client of its creation or stop disconnects.
        self._uncounted = (Kind.FIREWALL,) if runtime.name == "containerd" and not of_runtime else ()
        ipam = tuple(directory for directory in traces.directories if directory.endswith("/ipam"))
        self._scope = Scope(
            # Processes of containers by their cgroup.
            process_marks=(f"{agent.cgroup_root}/", *traces.process_marks),
            mount_roots=(str(agent.home), *traces.mount_roots),
            netns_directories=traces.netns_directories,
            cgroup_parents=(agent.cgroup_root,),
            directories=(str(agent.root / "pods"), str(agent.home / "log"), *(set(traces.directories) - set(ipam))),
            addresses=ipam,
            bridge=runtime.bridge,
            loop_roots=(str(agent.root), str(runtime.home)),
        )
        self._before = self._look()

    def left(self) -> dict[Kind, Counter[str]]:
        """The resources that were not in the first snapshot, by kind."""
        now = self._look()
        return {kind: found for kind in Kind if (found := now.found[kind] - self._before.found[kind])}

    def wait_none_left(self) -> dict[Kind, Counter[str]]:
        """Wait until nothing is left, within a limit; returns :meth:`left`."""
        deadline = time.monotonic() + _GRACE_SECONDS
        while (left := self.left()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return left

    def assert_none_left(self) -> None:
        """Wait until nothing is left; AssertionError lists the leftovers."""
        left = self.wait_none_left()
        lines = [f"  {kind}: {name}" for kind, found in left.items() for name in found]
        assert not left, "the pods left traces:\n" + "\n".join(lines)

    def _look(self) -> Snapshot:
        found = {kind: Counter(counts) for kind, counts in snapshot(self._scope).found.items()}
        for name in [name for name in found[Kind.CGROUP] if name.endswith(_KEPT_CGROUPS)]:
            del found[Kind.CGROUP][name]
        for kind in self._uncounted:
            found[kind].clear()
        found[Kind.FILE].update(str(path) for path in _CNI_RESULTS.glob(f"{self._bridge}-*"))
        return Snapshot(found)
