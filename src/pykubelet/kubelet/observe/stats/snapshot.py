"""Takes a snapshot of the machine's cgroup and those of pods and containers. Blocks, so it is called in threads."""

from collections.abc import Iterable, Sequence

from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.units import Seconds
from pykubelet.kubelet.observe.stats.cgroup_reader import CgroupReader
from pykubelet.kubelet.observe.stats.machine_reader import MachineReader
from pykubelet.kubelet.observe.stats.snapshot_types import ContainerSnapshot, PodSnapshot, Snapshot
from pykubelet.linux import system
from pykubelet.models.core_v1 import Pod


class SnapshotReader:
    """The reader of snapshots; ``groups`` are the paths of the cgroup of all pods and of the QoS cgroups.

    ``guard`` is the one under which each pod is read: a pod that raises is left out of the snapshot.
    """

    def __init__(self, *, groups: Sequence[str], cgroups: CgroupReader, machine: MachineReader, guard: Guard) -> None:
        self._groups = groups
        self._cgroups = cgroups
        self._machine = machine
        self._guard = guard

    def take(self, pods: Iterable[tuple[Pod, str | None]], moment: tuple[Seconds, Seconds], full: bool) -> Snapshot:
        """Take a snapshot. Pods are passed with the path of their cgroup, ``moment`` is (Unix, monotonic) time."""
        at, monotonic = moment
        network, default = self._machine.network()
        seen: list[PodSnapshot | None] = []
        for pod, path in pods:
            with self._guard.item(pod.metadata.uid):
                seen.append(self._pod(pod, path, at, full))
        return Snapshot(
            at=at,
            monotonic=monotonic,
            full=full,
            machine=self._machine.usage(at, full=full),
            network=network,
            default_interface=default,
            pid_limit=system.pid_limit(),
            disks=self._machine.disks() if full else {},
            daemons=tuple(self._machine.daemons(at)),
            groups=tuple(u for path in self._groups if (u := self._cgroups.read(path, at, full=full)) is not None),
            pods=tuple(pod for pod in seen if pod is not None),
        )

    def cpu_times(self, pod_paths: Sequence[str]) -> dict[str, int]:
        """Read the CPU time by path: of the machine, the daemons, all pods, each pod and its child cgroups."""
        paths = ["/", *self._groups[:1]]
        for path in pod_paths:
            paths += [path, *(f"{path}/{name}" for name in self._cgroups.children(path))]
        found = {path: time for path in paths if (time := self._cgroups.cpu_ns(path)) is not None}
        for daemon in self._machine.daemons(0.0):
            if daemon.usage.cpu is not None:
                found[daemon.usage.path] = daemon.usage.cpu.total_ns
        return found

    def _pod(self, pod: Pod, path: str | None, at: Seconds, full: bool) -> PodSnapshot | None:
        """Read a pod; None: no container of the pod runs."""
        usage = self._cgroups.read(path, at, full=full) if path else None
        below = self._cgroups.children(path) if path and usage is not None else []
        containers = tuple(self._containers(pod, path or "", below, at, full))
        if not containers:
            return None
        pids = self._cgroups.pids(path) if path and not pod.spec.host_network else ()
        return PodSnapshot(pod, usage, containers, self._machine.pod_network(pids))

    def _containers(
        self, pod: Pod, path: str, below: Sequence[str], at: Seconds, full: bool
    ) -> Iterable[ContainerSnapshot]:
        status = pod.status
        groups = (status.init_container_statuses, status.container_statuses, status.ephemeral_container_statuses)
        for found in (each for group in groups for each in group):
            running = found.state.running if found.state is not None else None
            identity = found.container_id.partition("://")[2]
            if running is None or not identity:
                continue
            # The cgroup's name is the container's id, or contains it with the cgroup driver systemd.
            name = next((name for name in below if identity in name), None)
            usage = self._cgroups.read(f"{path}/{name}", at, full=full) if name else None
            started = running.started_at.timestamp() if running.started_at is not None else 0.0
            yield ContainerSnapshot(found.name, identity, found.image, started, usage)
