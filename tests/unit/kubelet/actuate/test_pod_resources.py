"""Pod resources: whether the volumes of a pod may be set up after its sandbox."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import pytest

from pykubelet.base.errors import NotFound, Transient
from pykubelet.kubelet.actuate.pod_resources import PodResources, PodResourcesDeps
from pykubelet.kubelet.actuate.volumes import VolumeContext
from pykubelet.kubelet.types.ids import ContainerID, SandboxID, ref_of
from pykubelet.kubelet.types.runtime import ContainerState, ContainerStatus, PodRuntimeStatus, SandboxStatus
from pykubelet.kubelet.types.storage import AttachLimitExceeded
from pykubelet.models.core_v1 import ConfigMap, Pod, Secret
from tests.unit.kubelet.actuate.podruntime.build import pod_of

TOKEN = {"serviceAccountToken": {"path": "token"}}
KNOWN = {"name": "v", "configMap": {"name": "known"}}


@dataclass
class Rest:
    """Fake of all dependencies of PodResources, as far as these tests need them."""

    done: list[str] = field(default_factory=list)
    no_token: bool = False

    async def ensure_pod(self, pod: Pod, *, resizing: bool = False) -> str:
        self.done.append("cgroup")
        return ""

    async def mount(self, pod: Pod, context: VolumeContext) -> None:
        self.done.append("volumes")

    async def ready(self, pod: Pod) -> None:
        self.done.append("inputs")
        if self.no_token:
            raise Transient("no token")

    def get_config_map(self, namespace: str, name: str) -> ConfigMap:
        if name != "known":
            raise NotFound(f"configmap {name!r} not found")
        return ConfigMap()

    def get_secret(self, namespace: str, name: str) -> Secret:
        raise NotFound(f"secret {name!r} not found")

    def progress(self, uid: str) -> None: ...

    def begin(self, *step: object) -> None: ...

    def end(self, *step: object) -> None: ...

    def event(self, *event: object) -> None: ...

    def __getattr__(self, name: str) -> object:
        return lambda: ()


def _pod_resources(rest: Rest) -> PodResources:
    names = ("resources", "volumes", "objects", "node", "users", "cluster")
    telemetry = SimpleNamespace(clock=rest, events=rest, timeline=rest, metrics=rest)
    deps = SimpleNamespace(**dict.fromkeys(names, rest), telemetry=telemetry, runtime=SimpleNamespace(allocations=rest))
    return PodResources(cast(PodResourcesDeps, deps))


@pytest.mark.parametrize(
    ("fields", "later"),
    [
        ({}, True),
        ({"volumes": [{"name": "v"}, KNOWN]}, True),
        ({"volumes": [{"name": "v", "projected": {"sources": [TOKEN, {"configMap": {"name": "known"}}]}}]}, True),
        ({"volumes": [{"name": "v", "projected": {"sources": [TOKEN, {"configMap": {"name": "missing"}}]}}]}, False),
        ({"volumes": [{"name": "v", "secret": {"secretName": "missing"}}]}, False),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/x", "type": "Directory"}}]}, False),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, False),
        ({"volumes": [KNOWN], "hostUsers": False}, False),
    ],
)
async def test_volumes_that_only_lack_tokens_are_set_up_later(fields: dict[str, object], later: bool) -> None:
    rest = Rest()
    pod = pod_of(**fields)
    prepared = await _pod_resources(rest).prepare(pod, PodRuntimeStatus(ref_of(pod)))
    assert (prepared.rest is not None) is later
    assert rest.done == (["cgroup"] if later else ["cgroup", "inputs", "volumes"])
    if prepared.rest is not None:
        assert await prepared.rest() == ()
        assert rest.done == ["cgroup", "inputs", "volumes"]


async def test_pod_with_resource_claims_is_not_prepared() -> None:
    """Upstream starts no container whose devices are not prepared, and neither does a node that cannot prepare any."""
    pod = pod_of(resourceClaims=[{"name": "gpu", "resourceClaimName": "mine"}])
    rest = Rest()
    prepared = await _pod_resources(rest).prepare(pod, PodRuntimeStatus(ref_of(pod)))
    (failure,) = prepared.failures
    assert (failure.reason, rest.done) == ("FailedPrepareDynamicResources", [])
    assert failure.message.startswith("Failed to prepare dynamic resources: ") and failure.message.endswith(": gpu")


async def test_pod_cgroup_that_cannot_be_made_is_reported_with_upstreams_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rest, pod, reported = Rest(), pod_of(), []

    async def refuse(pod: Pod, *, resizing: bool = False) -> str:
        raise Transient("read-only file system")

    monkeypatch.setattr(rest, "ensure_pod", refuse)
    monkeypatch.setattr(rest, "event", lambda _pod, *event: reported.append(event))
    (failure,) = (await _pod_resources(rest).prepare(pod, PodRuntimeStatus(ref_of(pod)))).failures
    assert (failure.reason, failure.message) == ("FailedCreatePodContainer", "read-only file system")
    assert reported == [
        ("Warning", "FailedCreatePodContainer", "unable to ensure pod container exists: read-only file system")
    ]


async def test_a_pod_with_a_sandbox_waits_for_its_volumes() -> None:
    rest, pod = Rest(), pod_of()
    status = PodRuntimeStatus(ref_of(pod), sandboxes=(SandboxStatus(SandboxID("s"), ready=True),))
    assert (await _pod_resources(rest).prepare(pod, status)).rest is None
    assert "volumes" in rest.done


async def test_volumes_set_up_later_report_their_failure() -> None:
    pod = pod_of()
    prepared = await _pod_resources(Rest(no_token=True)).prepare(pod, PodRuntimeStatus(ref_of(pod)))
    assert prepared.rest is not None
    (failure,) = await prepared.rest()
    assert (failure.reason, failure.message) == ("FailedMount", "no token")


@pytest.mark.parametrize(
    ("running", "reason", "events"),
    [
        (False, "VolumeAttachmentLimitExceeded", []),  # its worker reports it
        (True, "FailedMount", [("Warning", "FailedMount", "the node is full")]),
    ],
)
async def test_pod_beyond_the_limit_of_attached_volumes_fails_unless_it_runs(
    monkeypatch: pytest.MonkeyPatch, running: bool, reason: str, events: list[tuple[str, ...]]
) -> None:
    rest, pod, reported = Rest(), pod_of(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]), []

    async def refuse(pod: Pod, context: VolumeContext) -> None:
        raise AttachLimitExceeded("the node is full")

    monkeypatch.setattr(rest, "mount", refuse)
    monkeypatch.setattr(rest, "event", lambda _pod, *event: reported.append(event))
    state = ContainerState.RUNNING if running else ContainerState.EXITED
    status = PodRuntimeStatus(ref_of(pod), containers=(ContainerStatus(ContainerID("c1"), "c", state),))
    (failure,) = (await _pod_resources(rest).prepare(pod, status)).failures
    assert (failure.reason, failure.message, reported) == (reason, "the node is full", events)
