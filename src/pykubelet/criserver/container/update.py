"""UpdateContainerResources."""

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from pykubelet.base import blocking
from pykubelet.base.errors import Permanent
from pykubelet.criserver.container import prepare
from pykubelet.criserver.container.interfaces import ContainerDeps
from pykubelet.criserver.container.prelaunch import Launcher
from pykubelet.criserver.container.registry import Registry
from pykubelet.criserver.container.state import Container
from pykubelet.criserver.spec import build_resources
from pykubelet.criserver.types import ContainerPhase
from pykubelet.pb import runtime_v1_pb2 as pb


class Updater:
    """Implementation of UpdateContainerResources."""

    def __init__(self, deps: ContainerDeps, registry: Registry, launcher: Launcher) -> None:
        self._deps = deps
        self._registry = registry
        self._launcher = launcher

    async def update(self, container: Container, resources: pb.LinuxContainerResources) -> None:
        """Change its resource limits; fields that are zero are left unchanged. Permanent: it has exited."""
        async with container.lock:
            record, launched = container.record, False
            config = pb.ContainerConfig.FromString(record.config)
            _merge(config.linux.resources, resources)
            wanted = build_resources(config.linux.resources, self._deps.host)
            match record.phase:
                case ContainerPhase.RUNNING:
                    await self._launcher.runtime(container).update(container.id, wanted)
                case ContainerPhase.CREATED:
                    launched = await self._launcher.undo(container)
                    bundle = self._deps.directories.bundles / container.id
                    await blocking.call_to_end(f"container/{container.id}", _rewrite, bundle, wanted)
                case _:
                    raise Permanent(f"container {container.id} has exited; its limits cannot be changed")
            await self._registry.put(container, replace(record, config=config.SerializeToString()))
            if launched:
                self._launcher.begin(container)


def _rewrite(bundle: Path, resources: Mapping[str, object]) -> None:
    """Change the limits in the spec of a container that is not running yet. Blocking."""
    spec = prepare.read_bundle(bundle)
    linux = spec["linux"]
    assert isinstance(linux, dict), "our own file"
    linux["resources"] = {**resources, "devices": linux["resources"]["devices"]}
    prepare.write_bundle(bundle, spec)


def _merge(into: pb.LinuxContainerResources, changes: pb.LinuxContainerResources) -> None:
    """Merge the fields that are set; non-empty maps and lists replace the old ones."""
    if changes.unified:
        into.ClearField("unified")
    if changes.hugepage_limits:
        into.ClearField("hugepage_limits")
    into.MergeFrom(changes)
