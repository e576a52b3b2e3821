"""The infra process of sandboxes with a shared PID namespace: an init that reaps, run like a container."""

import asyncio
import os
import shutil
from pathlib import Path

from pykubelet.base.errors import NotFound
from pykubelet.criserver.config.machine import cgroup_of
from pykubelet.criserver.conmon import Launch
from pykubelet.criserver.container.prepare import write_bundle
from pykubelet.criserver.container.processes import kill_group, monitors, noted_monitor
from pykubelet.criserver.oci import OciRuntime
from pykubelet.criserver.processes import open_process, reference
from pykubelet.criserver.sandbox.decide import namespace_options
from pykubelet.criserver.sandbox.ports import SandboxDeps
from pykubelet.criserver.sandbox.state import Sandbox
from pykubelet.criserver.spec import build_infra
from pykubelet.criserver.spec.userns import id_map
from pykubelet.criserver.types import ContainerID, IdMap, ProcessRef, SandboxID
from pykubelet.pb import runtime_v1_pb2 as pb

_OOM_SCORE = -998


class Infra:
    """Starts and ends infra processes. Its OCI container has the sandbox's id."""

    def __init__(self, deps: SandboxDeps) -> None:
        self._deps = deps

    async def start(self, sandbox: Sandbox, namespaces: dict[str, str]) -> ProcessRef:
        """Run one in these namespaces; the process to hold on to. Permanent when it cannot run."""
        runtime, bundle = self._deps.runtimes[sandbox.record.handler], self._bundle(sandbox.id)
        program = shutil.which(self._deps.folders.infra)
        if program is None:
            raise NotFound(f"{self._deps.folders.infra} is not installed; a shared PID namespace needs it")
        ids = id_map(namespace_options(sandbox.config))
        spec = build_infra(
            program=program,
            rootfs=str(bundle / "root"),
            cgroup=cgroup_of(sandbox.config.linux.cgroup_parent, sandbox.id, runtime.systemd),
            namespaces=namespaces,
            oom_score=max(_OOM_SCORE, self._deps.host.least_oom_score),
            ids=ids,
        )
        await asyncio.to_thread(_write, bundle, spec, ids)
        identity = ContainerID(sandbox.id)
        launched = await self._deps.conmon.launch(Launch(identity, bundle, None, runtime))
        await runtime.start(identity)
        process = reference(launched.pid)
        if process is None:
            raise NotFound(f"the infra process of sandbox {sandbox.id} ended at once")
        return process

    async def stop(self, sandbox: SandboxID, runtime: OciRuntime, config: pb.PodSandboxConfig) -> None:
        """End it and remove what there is of it; done is done. Can be repeated, also after a cut start."""
        bundle = self._bundle(sandbox)
        if not bundle.exists():
            return
        monitor = open_process(noted_monitor(bundle, sandbox)) or open_process(await self._unnoted_monitor(sandbox))
        if monitor is not None:
            with monitor:
                await kill_group(monitor)
        if not runtime.systemd:
            cgroup = cgroup_of(config.linux.cgroup_parent, sandbox, False)
            await asyncio.to_thread(self._deps.cgroups.delete, cgroup)
        await runtime.delete(ContainerID(sandbox))
        await asyncio.to_thread(shutil.rmtree, bundle, True)

    async def _unnoted_monitor(self, sandbox: SandboxID) -> ProcessRef | None:
        """A conmon that was cut off from its server so early that it has not written its number yet."""
        if (self._bundle(sandbox) / "conmon.pid").exists():
            return None
        return (await asyncio.to_thread(monitors, self._deps.conmon.path)).get(ContainerID(sandbox))

    def _bundle(self, sandbox: SandboxID) -> Path:
        return self._deps.folders.sandboxes / sandbox / "infra"


def _write(bundle: Path, spec: dict[str, object], ids: IdMap | None) -> None:
    for folder in (bundle, bundle / "root", bundle / "root" / "proc"):
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    (bundle / "root" / "init").touch()
    write_bundle(bundle, spec)
    if ids is not None:
        # The runtime walks to the root with the rights of the namespace's own root, and nobody else may.
        os.chown(bundle, 0, ids.gid)
        bundle.chmod(0o710)
        os.chown(bundle / "root", ids.uid, ids.gid)
