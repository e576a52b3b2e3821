"""Short ways to pods and containers."""

from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.pb import runtime_v1_pb2 as pb


def pod(name: str = "pod", attempt: int = 0) -> pb.PodSandboxConfig:
    return pb.PodSandboxConfig(
        metadata=pb.PodSandboxMetadata(name=name, namespace="ns", uid=f"{name}-uid", attempt=attempt),
        labels={"app": name},
    )


def app(name: str = "app", attempt: int = 0, image: str = "app:1") -> pb.ContainerConfig:
    return pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name=name, attempt=attempt),
        image=pb.ImageSpec(image=image),
        labels={"name": name},
    )


async def start(client: CriClient, container: pb.ContainerConfig | None = None) -> ContainerID:
    sandbox = await client.run_pod_sandbox(pod())
    created = await client.create_container(sandbox, container or app(), pod())
    await client.start_container(created)
    return created


async def state(client: CriClient, container: ContainerID) -> tuple[int, int, str]:
    status = (await client.container_status(container)).status
    return status.state, status.exit_code, status.reason


RUNNING = (pb.CONTAINER_RUNNING, 0, "")
