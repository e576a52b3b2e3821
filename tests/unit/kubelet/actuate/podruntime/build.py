"""Builders of pods and runtime states for these tests."""

from collections.abc import Sequence

from pykubelet.kubelet.actuate.cri_messages.labels import container_hash
from pykubelet.kubelet.types.ids import ContainerID, PodUID, SandboxID, ref_of
from pykubelet.kubelet.types.probes import ContainerProbes, ProbeResult
from pykubelet.kubelet.types.runtime import ContainerState, ContainerStatus, PodRuntimeStatus, SandboxStatus
from pykubelet.models import codec
from pykubelet.models.core_v1 import Container, Pod

Fields = dict[str, object]
T0 = 1_700_000_000.0
UID = PodUID("uid-1")

CREATED, RUNNING, EXITED, UNKNOWN = (
    ContainerState.CREATED,
    ContainerState.RUNNING,
    ContainerState.EXITED,
    ContainerState.UNKNOWN,
)
FAILED: Fields = {"state": EXITED, "exit_code": 1}
DONE: Fields = {"state": EXITED, "exit_code": 0}


def pod_of(
    containers: Sequence[str | Fields] = ("app",),
    init: Sequence[str | Fields] = (),
    ephemeral: Sequence[str | Fields] = (),
    /,
    **spec: object,
) -> Pod:
    """A pod ``ns/web``; a container is its name or the fields that differ; ``meta`` is further metadata."""
    meta = spec.pop("meta", {})
    assert isinstance(meta, dict)
    return codec.from_builtins(
        {
            "metadata": {"name": "web", "namespace": "ns", "uid": UID, **meta},
            "spec": {
                "containers": [_container(c) for c in containers],
                "initContainers": [_container(c) for c in init],
                "ephemeralContainers": [_container(c) for c in ephemeral],
                "restartPolicy": "Always",
                "terminationGracePeriodSeconds": 30,
                **spec,
            },
        },
        Pod,
    )


def _container(fields: str | Fields) -> Fields:
    if isinstance(fields, str):
        fields = {"name": fields}
    return {"image": "app:1", "imagePullPolicy": "IfNotPresent", **fields}


def sidecar(name: str, /, **fields: object) -> Fields:
    """A sidecar among the init containers."""
    return {"name": name, "restartPolicy": "Always", **fields}


def box(
    name: str = "s1", *, ready: bool = True, attempt: int = 0, ips: tuple[str, ...] = ("10.88.0.2",), host: bool = False
) -> SandboxStatus:
    """A sandbox; of several, those of a higher attempt are newer."""
    return SandboxStatus(SandboxID(name), ready, attempt, T0 + attempt, ips, host)


def at(name: str, /, **fields: object) -> ContainerStatus:
    """A running attempt of a container in sandbox ``s1`` with these facts; its id is ``NAME-RESTARTCOUNT``."""
    made_from = codec.from_builtins(_container(name), Container)
    count = fields.get("restart_count", 0)
    assert isinstance(count, int)
    values: Fields = {
        "id": ContainerID(f"{name}-{count}"),
        "name": name,
        "state": RUNNING,
        "sandbox_id": SandboxID("s1"),
        "created_at": T0 + count,
        "started_at": T0 + count,
        "hash": container_hash(made_from),
        **fields,
    }
    if values["state"] is EXITED:
        values.setdefault("finished_at", T0 + count + 0.5)
    return ContainerStatus(**values)  # type: ignore[arg-type]  # the fields of a table are what it says


def state_of(pod: Pod, *containers: ContainerStatus, boxes: Sequence[SandboxStatus] = (box(),)) -> PodRuntimeStatus:
    """The runtime's state; both tuples newest first, as promised."""
    return PodRuntimeStatus(
        ref_of(pod),
        tuple(sorted(boxes, key=lambda b: -b.created_at)),
        tuple(sorted(containers, key=lambda c: -c.created_at)),
        T0,
    )


def probes(**results: ContainerProbes) -> dict[ContainerID, ContainerProbes]:
    """Conclusions by the id of ``at``, with ``_`` for ``-``."""
    return {ContainerID(name.replace("_", "-")): result for name, result in results.items()}


STARTED = ContainerProbes(startup=ProbeResult.SUCCESS)
NOT_STARTED = ContainerProbes(startup=ProbeResult.FAILURE)
DEAD = ContainerProbes(startup=ProbeResult.SUCCESS, liveness=ProbeResult.FAILURE)
HTTP: Fields = {"httpGet": {"port": 80}}
