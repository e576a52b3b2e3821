"""Sandboxes, containers and images of the fake runtime, and their CRI messages."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from pykubelet.base.clock import Clock
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.fake_cri.scripts import Script


@dataclass(slots=True, eq=False)
class FakeImage:
    """An image, on the node or in the registry."""

    id: str
    tags: list[str]
    digests: list[str] = field(default_factory=list)
    size: int = 1_000_000
    uid: int | None = None
    username: str = ""
    pinned: bool = False
    pull_time: float = 0.0
    """Seconds that a pull takes."""
    auth: tuple[str, str] | None = None
    """User and password that a pull needs."""

    def names(self) -> set[str]:
        """All names by which the image can be requested."""
        return {self.id, *self.tags, *self.digests}

    def message(self) -> pb.Image:
        image = pb.Image(
            id=self.id,
            repo_tags=self.tags,
            repo_digests=self.digests,
            size=self.size,
            username=self.username,
            pinned=self.pinned,
        )
        if self.uid is not None:
            image.uid.value = self.uid
        return image


@dataclass(slots=True, eq=False)
class FakeSandbox:
    """A pod sandbox."""

    id: str
    config: pb.PodSandboxConfig
    handler: str
    created_at: int
    """Nanoseconds since the epoch, like all times here."""
    ip: str
    ready: bool = True

    @property
    def pod(self) -> str:
        """The pod as `ns/pod`."""
        return f"{self.config.metadata.namespace}/{self.config.metadata.name}"

    @property
    def reserved_name(self) -> str:
        meta = self.config.metadata
        return f"{meta.name}_{meta.namespace}_{meta.uid}_{meta.attempt}"

    @property
    def state(self) -> pb.PodSandboxState.ValueType:
        return pb.SANDBOX_READY if self.ready else pb.SANDBOX_NOTREADY

    def summary(self) -> pb.PodSandbox:
        return pb.PodSandbox(
            id=self.id,
            metadata=self.config.metadata,
            state=self.state,
            created_at=self.created_at,
            labels=self.config.labels,
            annotations=self.config.annotations,
            runtime_handler=self.handler,
        )

    def status(self) -> pb.PodSandboxStatus:
        options = self.config.linux.security_context.namespace_options
        return pb.PodSandboxStatus(
            id=self.id,
            metadata=self.config.metadata,
            state=self.state,
            created_at=self.created_at,
            network=pb.PodSandboxNetworkStatus(ip=self.ip if self.ready else ""),
            linux=pb.LinuxPodSandboxStatus(namespaces=pb.Namespace(options=options)),
            labels=self.config.labels,
            annotations=self.config.annotations,
            runtime_handler=self.handler,
        )


@dataclass(slots=True, eq=False)
class FakeContainer:
    """A container. `ended` is set when CRI shows it as exited."""

    id: str
    sandbox: FakeSandbox
    config: pb.ContainerConfig
    image: FakeImage
    script: Script
    created_at: int
    state: pb.ContainerState.ValueType = pb.CONTAINER_CREATED
    started_at: int = 0
    finished_at: int = 0
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    ending: bool = False
    """Whether its process has exited; CRI reports it now, or after `FakeCriOptions.exit_lag`."""
    ended: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    tasks: set["asyncio.Task[None]"] = field(default_factory=set, repr=False)

    @property
    def name(self) -> str:
        return self.config.metadata.name

    @property
    def path(self) -> str:
        """The container as `ns/pod/container`."""
        return f"{self.sandbox.pod}/{self.name}"

    @property
    def reserved_name(self) -> str:
        meta = self.config.metadata
        pod = self.sandbox.config.metadata
        return f"{meta.name}_{pod.name}_{pod.namespace}_{pod.uid}_{meta.attempt}"

    @property
    def running(self) -> bool:
        return self.state == pb.CONTAINER_RUNNING

    @property
    def log_file(self) -> str:
        """Absolute path of its log; empty if it has none."""
        directory, name = self.sandbox.config.log_directory, self.config.log_path
        return f"{directory.rstrip('/')}/{name}" if directory and name else ""

    def summary(self) -> pb.Container:
        return pb.Container(
            id=self.id,
            pod_sandbox_id=self.sandbox.id,
            metadata=self.config.metadata,
            image=self.config.image,
            image_ref=self.image.id,
            image_id=self.image.id,
            state=self.state,
            created_at=self.created_at,
            labels=self.config.labels,
            annotations=self.config.annotations,
        )

    def status(self) -> pb.ContainerStatus:
        return pb.ContainerStatus(
            id=self.id,
            metadata=self.config.metadata,
            state=self.state,
            created_at=self.created_at,
            started_at=self.started_at,
            finished_at=self.finished_at,
            exit_code=self.exit_code,
            image=self.config.image,
            image_ref=self.image.digests[0] if self.image.digests else self.image.id,
            image_id=self.image.id,
            reason=self.reason,
            message=self.message,
            labels=self.config.labels,
            annotations=self.config.annotations,
            mounts=self.config.mounts,
            log_path=self.log_file,
            resources=pb.ContainerResources(linux=self.config.linux.resources),
        )


def nanoseconds(clock: Clock) -> int:
    """The wall time of a clock in nanoseconds, as in CRI."""
    return int(clock.now() * 1e9)


def has_labels(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    """Whether the labels include all labels of the selector."""
    return all(labels.get(key) == value for key, value in selector.items())
