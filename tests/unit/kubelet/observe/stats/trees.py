"""Cgroup trees in a temporary directory, of both versions, and pods to find in them."""

from collections.abc import Mapping
from pathlib import Path

from pykubelet.linux.cgroups import Layout, Mode
from pykubelet.models import core_v1 as core
from pykubelet.models.core_v1 import Pod
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.models.scalars import time_from_unix

STARTED = 1_700_000_000.0


class Tree:
    """``set`` writes what a cgroup uses; ``layout`` is given to what is tested."""

    def __init__(self, base: Path, version: int) -> None:
        self._base = base
        self.version = version
        if version == 2:
            self.layout = Layout(Mode.V2, base)
        else:
            mounts = {name: base / name for name in ("cpu", "cpuacct", "memory", "pids", "blkio")}
            self.layout = Layout(Mode.V1, None, mounts)
            for mount in mounts.values():
                mount.mkdir()

    def set(
        self, path: str, *, cpu_ns: int, memory: int = 1 << 20, inactive: int = 0, limit: int | None = None
    ) -> None:
        """Write the files of a cgroup."""
        if self.version == 2:
            self._write("", path, {"cpu.stat": f"usage_usec {cpu_ns // 1000}\n", "pids.current": "3\n"})
            shown = "max" if limit is None else str(limit)
            stat = f"anon 1000\ninactive_file {inactive}\n"
            self._write("", path, {"memory.current": f"{memory}\n", "memory.stat": stat, "memory.max": f"{shown}\n"})
            self._write("", path, {"io.stat": "8:99 rbytes=1 wbytes=2 rios=3 wios=4\n"})
            return
        self._write("cpuacct", path, {"cpuacct.usage": f"{cpu_ns}\n"})
        self._write("pids", path, {"pids.current": "3\n"})
        stat = f"total_rss 1000\ntotal_inactive_file {inactive}\n"
        shown = str(9223372036854771712 if limit is None else limit)
        self._write(
            "memory",
            path,
            {"memory.usage_in_bytes": f"{memory}\n", "memory.stat": stat, "memory.limit_in_bytes": f"{shown}\n"},
        )
        self._write("blkio", path, {"blkio.throttle.io_service_bytes_recursive": "8:99 Read 1\n8:99 Write 2\n"})

    def procs(self, path: str, *pids: int) -> None:
        """Put processes into a cgroup."""
        text = "".join(f"{pid}\n" for pid in pids)
        self._write("pids" if self.version == 1 else "", path, {"cgroup.procs": text})

    def _write(self, controller: str, path: str, files: Mapping[str, str]) -> None:
        directory = self._base / controller / path.strip("/")
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (directory / name).write_text(text)


def running_pod(name: str, *containers: str, **spec: object) -> Pod:
    """A pod whose containers run; their ids are ``id-NAME``."""
    state = core.ContainerState(running=core.ContainerStateRunning(started_at=time_from_unix(STARTED)))
    statuses = tuple(
        core.ContainerStatus(
            name=each,
            ready=True,
            restart_count=0,
            image="busybox:1",
            image_id="",
            container_id=f"test://id-{each}",
            state=state,
        )
        for each in containers
    )
    return Pod(
        metadata=ObjectMeta(name=name, namespace="ns", uid=f"uid-{name}"),
        spec=core.PodSpec(containers=tuple(core.Container(name=each) for each in containers), **spec),  # type: ignore[arg-type]  # fields by name
        status=core.PodStatus(phase="Running", start_time=time_from_unix(STARTED), container_statuses=statuses),
    )
