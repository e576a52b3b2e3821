"""The runtime's streaming server, as the servers of the agent use it."""

from collections.abc import Sequence

from msgspec import Struct

from pykubelet.base.errors import NotFound
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.actuate.cri.plan.conversion import newest_sandbox
from pykubelet.kubelet.actuate.cri_messages.labels import POD_UID
from pykubelet.kubelet.serve.streams import StreamOptions
from pykubelet.kubelet.types.ids import ContainerID, PodUID
from pykubelet.pb import runtime_v1_pb2 as pb


class RuntimeStreams(Struct, frozen=True):
    """The servers' ``Streams``."""

    cri: CriClient

    async def exec_url(self, container: ContainerID, options: StreamOptions) -> str:
        """Return a one-time URL that runs a command in the container."""
        return await self.cri.exec(
            pb.ExecRequest(
                container_id=container,
                cmd=options.command,
                tty=options.tty,
                stdin=options.stdin,
                stdout=options.stdout,
                stderr=options.stderr,
            )
        )

    async def attach_url(self, container: ContainerID, options: StreamOptions) -> str:
        """Return a one-time URL that attaches to the container's first process."""
        return await self.cri.attach(
            pb.AttachRequest(
                container_id=container,
                tty=options.tty,
                stdin=options.stdin,
                stdout=options.stdout,
                stderr=options.stderr,
            )
        )

    async def port_forward_url(self, uid: PodUID, ports: Sequence[int]) -> str:
        """Return a one-time URL that forwards to ports of the pod. NotFound: the pod has no running sandbox."""
        ready = pb.PodSandboxStateValue(state=pb.PodSandboxState.SANDBOX_READY)
        wanted = pb.PodSandboxFilter(label_selector={POD_UID: uid}, state=ready)
        newest = newest_sandbox(await self.cri.list_pod_sandboxes(wanted))
        if newest is None:
            raise NotFound(f"the pod with uid {uid} has no running sandbox")
        return await self.cri.port_forward(newest, list(ports))
