"""UpdatePodSandboxResources."""

from msgspec.structs import replace

from pykubelet.base.errors import Permanent
from pykubelet.criserver.sandbox.state.records import SandboxRecords
from pykubelet.criserver.sandbox.state.table import SandboxTable
from pykubelet.pb import runtime_v1_pb2 as pb


class SandboxUpdater:
    """Implementation of UpdatePodSandboxResources."""

    def __init__(self, *, table: SandboxTable, records: SandboxRecords) -> None:
        self._table = table
        self._records = records

    async def update(
        self, identity: str, overhead: pb.LinuxContainerResources, resources: pb.LinuxContainerResources
    ) -> None:
        """Record the pod's new resources (KEP-1287); the client has changed the pod's cgroup itself.

        NotFound; Permanent: it is not ready.
        """
        sandbox = self._table.get(identity)
        async with sandbox.lock:
            if not sandbox.ready:
                raise Permanent(f"sandbox {sandbox.id} is not ready")
            config = pb.PodSandboxConfig()
            config.CopyFrom(sandbox.config)
            config.linux.overhead.CopyFrom(overhead)
            config.linux.resources.CopyFrom(resources)
            await self._records.put(sandbox, replace(sandbox.record, config=config.SerializeToString()))
