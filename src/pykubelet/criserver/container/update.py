"""UpdateContainerResources."""

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Permanent
from pykubelet.criserver.container.bundle import prepare
from pykubelet.criserver.container.container_interfaces import Directories
from pykubelet.criserver.container.processes.prelaunch import Launcher
from pykubelet.criserver.container.state.records import ContainerRecords
from pykubelet.criserver.container.state.table import ContainerTable
from pykubelet.criserver.spec import Host, build_resources
from pykubelet.criserver.types import ContainerPhase
from pykubelet.pb import runtime_v1_pb2 as pb


class ContainerUpdater:
    """Implementation of UpdateContainerResources."""

    def __init__(
        self,
        *,
        table: ContainerTable,
        records: ContainerRecords,
        launcher: Launcher,
        host: Host,
        directories: Directories,
    ) -> None:
        self._table = table
        self._records = records
        self._launcher = launcher
        self._host = host
        self._directories = directories

    async def update(self, identity: str, resources: pb.LinuxContainerResources) -> None:
        """Change its resource limits; fields that are zero are left unchanged. NotFound; Permanent: it has exited."""
        container = self._table.get(identity)
        async with container.lock:
            record, launched = container.record, False
            config = pb.ContainerConfig.FromString(record.config)
            _merge(config.linux.resources, resources)
            wanted = build_resources(config.linux.resources, self._host)
            # A request has no limit of processes: "none" would lift the one of the handler's base_runtime_spec.
            wanted.pop("pids", None)
            match record.phase:
                case ContainerPhase.RUNNING:
                    await self._launcher.runtime(container).update(self._launcher.task(container), wanted)
                case ContainerPhase.CREATED:
                    launched = await self._launcher.undo(container)
                    bundle = self._directories.bundle(container.id)
                    await blocking.call_to_end(f"container/{container.id}", _rewrite, bundle, wanted)
                case _:
                    raise Permanent(f"container {container.id} has exited; its limits cannot be changed")
            await self._records.put(container, replace(record, config=config.SerializeToString()))
            if launched:
                self._launcher.begin(container)


def _rewrite(bundle: Path, resources: Mapping[str, object]) -> None:
    """Change the limits in the spec of a container that is not running yet. Blocking."""
    spec = prepare.read_bundle(bundle)
    linux = spec["linux"]
    assert isinstance(linux, dict), "our own file"
    before = linux["resources"]
    linux["resources"] = {**before, **resources}
    prepare.write_bundle(bundle, spec)


def _merge(into: pb.LinuxContainerResources, changes: pb.LinuxContainerResources) -> None:
    """Merge the fields that are set; non-empty maps and lists replace the old ones."""
    if changes.unified:
        into.ClearField("unified")
    if changes.hugepage_limits:
        into.ClearField("hugepage_limits")
    into.MergeFrom(changes)
