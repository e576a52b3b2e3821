"""Parts for tests of the image manager: a fake runtime, pull secrets and recorders, in virtual time."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from pykubelet.base.errors import NotFound
from pykubelet.kubelet.actuate.actuate_types import ImageError
from pykubelet.kubelet.actuate.images import (
    CredentialPlugins,
    ImageConfig,
    ImageDeps,
    ImageManager,
    NodeCredentials,
    PluginDeps,
    PulledImages,
)
from pykubelet.kubelet.actuate.images.plan.pull_records import Policy, Verification
from pykubelet.kubelet.config.credential_providers import CredentialProviders
from pykubelet.kubelet.types.ids import PodRef, PodUID
from pykubelet.kubelet.types.podspec import AnyContainer
from pykubelet.kubelet.types.reports.timeline import Step
from pykubelet.kubelet.types.runtime import ContainerKind
from pykubelet.models.core_v1 import Container, LocalObjectReference, Pod, PodSpec, Secret
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.fake_cri import FakeCri
from pykubelet.testing.telemetry import telemetry

KIND: Final = ContainerKind.CONTAINER


def pod(name: str = "web", secrets: Sequence[str] = ()) -> Pod:
    return Pod(
        metadata=ObjectMeta(name=name, namespace="shop", uid=f"uid-{name}"),
        spec=PodSpec(image_pull_secrets=tuple(LocalObjectReference(name=s) for s in secrets)),
    )


def container(image: str, policy: str = "") -> AnyContainer:
    return Container(name="app", image=image, image_pull_policy=policy)


@dataclass
class Recorder:
    """Keeps events and steps."""

    events: list[tuple[str, str, str]] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)
    """Results of checks whether a present image may be used."""
    counts: tuple[int, int] = (0, 0)
    """Intents and records."""
    requests: list[tuple[str, bool | None, bool | None]] = field(default_factory=list)
    """Requests for images: policy, whether it was present, whether it was pulled."""

    def event(
        self, pod: PodRef | None, event_type: str, reason: str, message: str, *, container: str = "", **more: object
    ) -> None:
        self.events.append((event_type, reason, message))

    def image_pulled(self, seconds: float, size_bytes: int) -> None: ...

    def credential_plugin(self, plugin: str, seconds: float, failed: bool) -> None: ...

    def credential_config(self, config_hash: str) -> None: ...

    def pull_check(self, result: str) -> None:
        self.checks.append(result)

    def image_requested(self, policy: str, present: bool | None, must_pull: bool | None) -> None:
        self.requests.append((policy, present, must_pull))

    def pull_records(self, intents: int, records: int) -> None:
        self.counts = (intents, records)

    def pod_seen(self, pod: Pod) -> None: ...

    def begin(self, uid: PodUID, step: Step, container: str = "") -> None:
        self.steps.append(f"begin {step} {container}")

    def end(self, uid: PodUID, step: Step, container: str = "", error: str = "") -> None:
        self.steps.append(f"end {step} {container} {error}".strip())

    def take(self) -> list[tuple[str, str, str]]:
        taken, self.events = self.events, []
        return taken


class Secrets:
    def __init__(self) -> None:
        self.found: dict[str, Secret] = {}

    def add(self, name: str, registry: str, user: str, password: str) -> None:
        auth = base64.b64encode(f"{user}:{password}".encode()).decode()
        document = json.dumps({"auths": {registry: {"auth": auth}}}).encode()
        self.found[name] = Secret(
            metadata=ObjectMeta(name=name, namespace="shop", uid=f"uid-{name}"),
            type="kubernetes.io/dockerconfigjson",
            data={".dockerconfigjson": document},
        )

    def get_secret(self, namespace: str, name: str) -> Secret:
        try:
            return self.found[name]
        except KeyError:
            raise NotFound(f'secret "{name}" not found') from None


@dataclass
class Kit:
    """The fakes of a test, and image managers that use them."""

    clock: VirtualClock
    cri: FakeCri
    recorder: Recorder
    secrets: Secrets
    node: tuple[Path, ...] = ()
    """Files with credentials of the node."""
    plugins: CredentialProviders | None = None
    root: Path = field(kw_only=True)
    """Directory with the records of pulled images."""
    verification: Verification = Verification(Policy.PULLED)

    def manager(self, config: ImageConfig | None = None, *, pulled: PulledImages | None = None) -> ImageManager:
        recorders = telemetry(self.clock, self.recorder, events=self.recorder, timeline=self.recorder)
        deps = ImageDeps(
            runtime=self.cri.client(),
            secrets=self.secrets,
            node=NodeCredentials(self.node, self.clock),
            plugins=CredentialPlugins(PluginDeps(accounts=None, telemetry=recorders), self.plugins),
            pulled=pulled or self.pulled(),
            telemetry=recorders,
        )
        return ImageManager(deps, config)

    def pulled(self) -> PulledImages:
        """Return the records as a new agent reads them."""
        return PulledImages(self.root, verification=self.verification, telemetry=telemetry(self.clock, self.recorder))

    async def fails(self, manager: ImageManager, pod: Pod, container: AnyContainer) -> ImageError:
        with pytest.raises(ImageError) as caught:
            await manager.ensure(pod, container, KIND)
        return caught.value
