"""Pods, and fakes of the volume manager's dependencies, for these tests and the integration tests."""

from dataclasses import dataclass, field
from pathlib import Path

from pykubelet.base.clock import Clock
from pykubelet.base.errors import NotFound
from pykubelet.kubelet.actuate.actuate_types import ImageError, ImageReason
from pykubelet.kubelet.actuate.cri_messages.config_types import DownwardContext
from pykubelet.kubelet.actuate.volumes import PodDirs, VolumeConfig, VolumeContext, VolumeDeps, VolumeManager
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.ids import PodRef, PodUID
from pykubelet.kubelet.types.reports.work_meter import WorkMeter
from pykubelet.models import codec
from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import ConfigMap, Container, PersistentVolume, PersistentVolumeClaim, Pod, Secret
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.meter import RecordingMeter
from pykubelet.testing.telemetry import telemetry

Fields = dict[str, object]
UID = PodUID("u-1")


def make_pod(spec: Fields | None = None, /, **meta: object) -> Pod:
    """A pod named ``web`` of namespace ``shop`` with this spec and further metadata."""
    metadata = {"name": "web", "namespace": "shop", "uid": UID, **meta}
    return codec.from_builtins({"metadata": metadata, "spec": spec or {}}, Pod)


def pod_with(*volumes: Fields, **spec: object) -> Pod:
    """A pod with these volumes."""
    return make_pod({"volumes": list(volumes), **spec})


def mounting(*mounts: Fields, name: str = "app") -> Container:
    """A container with these volume mounts."""
    return codec.from_builtins({"name": name, "image": "app:1", "volumeMounts": list(mounts)}, Container)


@dataclass
class Objects:
    """ConfigMaps and Secrets of namespace ``shop`` by name."""

    config_maps: dict[str, ConfigMap] = field(default_factory=dict)
    secrets: dict[str, Secret] = field(default_factory=dict)

    def get_config_map(self, namespace: str, name: str) -> ConfigMap:
        if namespace != "shop" or name not in self.config_maps:
            raise NotFound(f'configmap "{name}" not found')
        return self.config_maps[name]

    def get_secret(self, namespace: str, name: str) -> Secret:
        if namespace != "shop" or name not in self.secrets:
            raise NotFound(f'secret "{name}" not found')
        return self.secrets[name]


@dataclass
class Events:
    """Keeps what is recorded."""

    seen: list[tuple[str, str]] = field(default_factory=list)

    def event(
        self, pod: PodRef | None, event_type: str, reason: str, message: str, *, container: str = "", **more: object
    ) -> None:
        self.seen.append((reason, message))


class Images:
    """Has any image but ``gone``."""

    async def ensure_volume(self, pod: Pod, reference: str, policy: str) -> str:
        if reference == "gone":
            raise ImageError(ImageReason.ERR_IMAGE_PULL, "no such image")
        return f"sha256:{reference}:{policy}"


@dataclass
class Kit:
    """A manager with all around it."""

    root: Path
    clock: Clock = field(default_factory=VirtualClock)
    objects: Objects = field(default_factory=Objects)
    events: Events = field(default_factory=Events)
    config: VolumeConfig = field(default_factory=VolumeConfig)
    downward: DownwardContext = field(default_factory=DownwardContext)
    recursive_read_only: bool = False
    meter: RecordingMeter = field(default_factory=RecordingMeter)

    def __post_init__(self) -> None:
        self.dirs = PodDirs.at(self.root)
        self.manager = self.restarted()

    def restarted(self) -> VolumeManager:
        """A new manager, as after a restart of the agent."""
        deps = VolumeDeps(
            images=Images(),
            recursive_read_only=lambda handler: self.recursive_read_only,
            telemetry=self.telemetry,
        )
        return VolumeManager(dirs=self.dirs, deps=deps, config=self.config)

    @property
    def telemetry(self) -> Telemetry[WorkMeter]:
        return telemetry(self.clock, self.meter, events=self.events)

    @property
    def context(self) -> VolumeContext:
        return VolumeContext(config=self.objects, downward=self.downward)

    async def mount(self, pod: Pod) -> None:
        await self.manager.mount(pod, self.context)

    def volume(self, kind: str, name: str) -> Path:
        """Root of a volume of the pod."""
        return self.dirs.of_volumes.volume(UID, f"kubernetes.io/{kind}", name)


@dataclass
class Claims:
    """Claim ``NAME`` is bound to volume ``pv-NAME``."""

    specs: dict[str, Fields] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    reads: int = 0

    async def claim(self, namespace: str, name: str) -> PersistentVolumeClaim:
        self.reads += 1
        if name not in self.specs:
            raise NotFound(f'persistentvolumeclaims "{name}" not found')
        return from_builtins(
            {
                "metadata": {"name": name, "namespace": namespace, "uid": name},
                "spec": {"volumeName": f"pv-{name}"},
                "status": {"phase": "Bound"},
            },
            PersistentVolumeClaim,
        )

    async def node_labels(self) -> dict[str, str]:
        return {"kubernetes.io/hostname": "node-1"}

    async def patch_claim(self, claim: PersistentVolumeClaim, patch: dict[str, object]) -> PersistentVolumeClaim:
        raise AssertionError("nothing grows here")

    async def volume(self, name: str) -> PersistentVolume:
        claim = name.removeprefix("pv-")
        spec = {"claimRef": {"uid": claim}, **self.specs[claim]}
        return from_builtins(
            {"metadata": {"name": name, "annotations": self.annotations}, "spec": spec}, PersistentVolume
        )


def using(claim: str, **fields: object) -> Pod:
    """A pod whose container mounts a claim."""
    volume: Fields = {"name": "data", "persistentVolumeClaim": {"claimName": claim, **fields}}
    return pod_with(volume, containers=[{"name": "app", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}])
