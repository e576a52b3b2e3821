"""Short constructors of pods, runtime states and container statuses for test tables."""

from collections.abc import Sequence

from msgspec.structs import replace

from pykubelet.kubelet.types.ids import ContainerID, PodRef, PodUID, SandboxID, ref_of
from pykubelet.kubelet.types.runtime import (
    ContainerState,
    ContainerStatus,
    PodRuntimeStatus,
    SandboxStatus,
)
from pykubelet.models import core_v1 as core
from pykubelet.models.meta_v1 import ObjectMeta

NOW = 1_700_000_000.0
REF = PodRef("ns", "web", PodUID("uid-1"))


def container(name: str = "app", *, restart_policy: str = "", **fields: object) -> core.Container:
    base = core.Container(name=name, image=f"registry.test/{name}:1", restart_policy=restart_policy)
    return replace(base, **fields) if fields else base


def sidecar(name: str = "proxy", **fields: object) -> core.Container:
    return container(name, restart_policy="Always", **fields)


def pod(
    *containers: core.Container,
    init: Sequence[core.Container] = (),
    ephemeral: Sequence[core.EphemeralContainer] = (),
    restart_policy: str = "Always",
    static: bool = True,
    **spec: object,
) -> core.Pod:
    annotations = {"kubernetes.io/config.source": "file"} if static else {}
    base = core.PodSpec(
        containers=containers or (container(),),
        init_containers=tuple(init),
        ephemeral_containers=tuple(ephemeral),
        restart_policy=restart_policy,
    )
    return core.Pod(
        api_version="v1",
        kind="Pod",
        metadata=ObjectMeta(
            name=REF.name, namespace=REF.namespace, uid=REF.uid, annotations=annotations, labels={"app": "web"}
        ),
        spec=replace(base, **spec) if spec else base,
    )


def with_meta(value: core.Pod, **fields: object) -> core.Pod:
    return replace(value, metadata=replace(value.metadata, **fields))


def attempt(
    name: str = "app",
    state: ContainerState = ContainerState.RUNNING,
    *,
    number: int = 0,
    exit_code: int = 0,
    sandbox: str = "sb0",
    started: bool = True,
    reason: str = "",
    message: str = "",
    image: str = "",
) -> ContainerStatus:
    """One attempt of a container; ``number`` is its restart count and part of its id and times."""
    at = NOW - 100 + 10 * number
    ran = started and state is not ContainerState.CREATED
    return ContainerStatus(
        id=ContainerID(f"{name}-{number}"),
        name=name,
        state=state,
        sandbox_id=SandboxID(sandbox),
        created_at=at,
        started_at=at + 1 if ran else 0.0,
        finished_at=at + 2 if state is ContainerState.EXITED else 0.0,
        exit_code=exit_code,
        reason=reason or ("Completed" if exit_code == 0 else "Error") if state is ContainerState.EXITED else reason,
        message=message,
        image=image,
        image_ref=f"sha256:{name}",
        restart_count=number,
    )


def exited(name: str = "app", code: int = 0, *, number: int = 0, sandbox: str = "sb0") -> ContainerStatus:
    return attempt(name, ContainerState.EXITED, number=number, exit_code=code, sandbox=sandbox)


def sandbox(
    name: str = "sb0", *, ready: bool = True, ips: Sequence[str] = ("10.0.0.5",), host_network: bool = False
) -> SandboxStatus:
    return SandboxStatus(id=SandboxID(name), ready=ready, ips=tuple(ips), host_network=host_network)


def runtime(*containers: ContainerStatus, sandboxes: Sequence[SandboxStatus] | None = None) -> PodRuntimeStatus:
    return PodRuntimeStatus(
        ref=REF,
        sandboxes=tuple(sandboxes) if sandboxes is not None else (sandbox(),),
        containers=containers,
        observed_at=NOW,
    )


__all__ = [
    "NOW",
    "REF",
    "attempt",
    "container",
    "exited",
    "pod",
    "ref_of",
    "runtime",
    "sandbox",
    "sidecar",
    "with_meta",
]
