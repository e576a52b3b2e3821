"""The lower bound: the same pods created by bare CRI calls, one after the other, with the agent's configurations.

The runtime returns the configurations of a pod that the agent created; their copies differ only in names, ids,
log directory and cgroup. The files that the agent mounts are copied before the clock starts.
"""

import asyncio
import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from google.protobuf import json_format

from benchmarks.observer import NODE, Run, pod_name, remove_sandboxes
from pykubelet.base.errors import NotFound
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.actuate.cri_messages.labels import POD_NAME, POD_UID
from pykubelet.kubelet.types.ids import ContainerID, SandboxID
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.traces import remove_files

_EXIT_LOOK_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Recipe:
    """The configurations of a pod; the last container is the main one, those before it run to completion first."""

    sandbox: pb.PodSandboxConfig
    containers: tuple[pb.ContainerConfig, ...]


@dataclass(frozen=True, slots=True)
class BarePods:
    """Creates pods on one runtime by bare CRI calls."""

    client: CriClient
    directory: Path
    cgroup: str

    def prepare(self, recipe: Recipe, name: str) -> Recipe:
        """A copy for another pod, with copies of the files it mounts."""
        uid = str(uuid4())
        sandbox, containers = pb.PodSandboxConfig(), []
        sandbox.CopyFrom(recipe.sandbox)
        sandbox.metadata.name, sandbox.metadata.uid = f"{name}-{NODE}", uid
        sandbox.log_directory = str(self.directory / "log" / uid)
        sandbox.linux.cgroup_parent = f"{self.cgroup}/pod{uid}"
        for number, original in enumerate(recipe.containers):
            container = pb.ContainerConfig()
            container.CopyFrom(original)
            (self.directory / "log" / uid / container.metadata.name).mkdir(parents=True)
            for mount in container.mounts:
                mount.host_path = self._copy(Path(mount.host_path), self.directory / "files" / uid / str(number))
            containers.append(container)
        for labels in (sandbox.labels, *(container.labels for container in containers)):
            labels.update({POD_NAME: f"{name}-{NODE}", POD_UID: uid})
        return Recipe(sandbox, tuple(containers))

    async def start(self, recipe: Recipe) -> list[Run]:
        """Create the pod; returns the times of its containers, after a run named "" that began with the first call."""
        name = pod_name(recipe.sandbox.labels)
        runs = [Run(name, "", 0, time.time_ns(), 0)]
        sandbox = await self.client.run_pod_sandbox(recipe.sandbox)
        for config in recipe.containers:
            container = await self.client.create_container(sandbox, config, recipe.sandbox)
            await self.client.start_container(container)
            if config is not recipe.containers[-1]:
                await self._ended(container)
            status = (await self.client.container_status(container)).status
            runs.append(Run(name, config.metadata.name, 0, status.started_at, status.finished_at))
        return runs

    async def remove_all(self) -> None:
        """Remove all pods of the runtime, and their files."""
        await remove_sandboxes(self.client)
        remove_files(self.directory)

    async def _ended(self, container: ContainerID) -> None:
        state = pb.CONTAINER_RUNNING
        while state != pb.CONTAINER_EXITED:
            await asyncio.sleep(_EXIT_LOOK_SECONDS)
            state = (await self.client.container_status(container)).status.state

    def _copy(self, source: Path, directory: Path) -> str:
        target = directory / f"{len(list(directory.iterdir())) if directory.exists() else 0}-{source.name}"
        directory.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True)
        else:
            shutil.copy2(source, target)
        return str(target)


async def read_recipe(client: CriClient, containers: Sequence[pb.Container], pod: str) -> Recipe:
    """The configurations of a running pod. Needs containerd, which reports them in the verbose status."""
    own = sorted((each for each in containers if pod_name(each.labels) == pod), key=lambda each: each.created_at)
    if not own:
        raise NotFound(f"pod {pod} has no containers")
    reply = await client.pod_sandbox_status(SandboxID(own[0].pod_sandbox_id), verbose=True)
    sandbox = json_format.ParseDict(json.loads(reply.info["info"])["config"], pb.PodSandboxConfig())
    configs = []
    for each in own:
        status = await client.container_status(ContainerID(each.id), verbose=True)
        configs.append(json_format.ParseDict(json.loads(status.info["info"])["config"], pb.ContainerConfig()))
    return Recipe(sandbox, tuple(configs))
