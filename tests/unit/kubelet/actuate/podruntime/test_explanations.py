"""Each action of a sync comes with its reason, as does each object that stays as it is."""

from collections.abc import Callable

import pytest

from pykubelet.kubelet.actuate.podruntime.plan.actions import compute_pod_actions
from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.kubelet.types.probes import ContainerProbes
from pykubelet.kubelet.types.runtime import ContainerStatus, SandboxStatus
from pykubelet.models.core_v1 import Pod
from tests.unit.kubelet.actuate.podruntime.build import (
    CREATED,
    DEAD,
    EXITED,
    UNKNOWN,
    at,
    box,
    pod_of,
    probes,
    sidecar,
    state_of,
)

NEVER = {"restartPolicy": "Never"}


def decided(
    pod: Pod,
    *containers: ContainerStatus,
    boxes: tuple[SandboxStatus, ...] = (box(),),
    results: dict[ContainerID, ContainerProbes] | None = None,
) -> list[str]:
    actions = compute_pod_actions(pod, state_of(pod, *containers, boxes=boxes), results or {})
    return [
        f"{d.topic} {d.subject}: {d.action}: {d.reason}{' (idle)' if d.idle else ''}".replace("  ", " ")
        for d in actions.decisions
    ]


CASES: dict[str, tuple[Callable[[], list[str]], list[str]]] = {
    "new pod": (
        lambda: decided(pod_of(), boxes=()),
        ["sandbox : create: the pod has no sandbox yet", "container app: start: in the new sandbox"],
    ),
    "sandbox gone": (
        lambda: decided(pod_of(), boxes=(box(ready=False),)),
        ["sandbox : create: its sandbox does not run", "container app: start: in the new sandbox"],
    ),
    "two sandboxes": (
        lambda: decided(pod_of(), boxes=(box("s1", attempt=1), box("s0"))),
        ["sandbox : create: more than one of its sandboxes runs", "container app: start: in the new sandbox"],
    ),
    "no address": (
        lambda: decided(pod_of(), boxes=(box(ips=()),)),
        ["sandbox : create: its sandbox has no address", "container app: start: in the new sandbox"],
    ),
    "runs": (lambda: decided(pod_of(), at("app")), ["container app: keep: it runs as specified (idle)"]),
    "not created": (lambda: decided(pod_of()), ["container app: start: it has not been created yet"]),
    "created": (
        lambda: decided(pod_of(), at("app", state=CREATED)),
        ["container app: start: it has been created, but not started"],
    ),
    "exited": (
        lambda: decided(pod_of(), at("app", state=EXITED, exit_code=1)),
        ["container app: start: exited with code 1; restart policy Always"],
    ),
    "unknown": (
        lambda: decided(pod_of(), at("app", state=UNKNOWN)),
        ['container app: restart: Container is in "unknown" state, try killing it before restart'],
    ),
    "liveness": (
        lambda: decided(pod_of(), at("app"), results=probes(app_0=DEAD)),
        ["container app: restart: Container app failed liveness probe, will be restarted"],
    ),
    "one of two ended": (
        lambda: decided(pod_of(("app", "b"), **NEVER), at("app", state=EXITED, exit_code=0), at("b")),
        [
            "container app: leave: exited with code 0; restart policy Never (idle)",
            "container b: keep: it runs as specified (idle)",
        ],
    ),
    "all ended": (
        lambda: decided(pod_of(**NEVER), at("app", state=EXITED, exit_code=1)),
        [
            "container app: leave: exited with code 1; restart policy Never (idle)",
            "pod : stop: all its containers have ended, and none is restarted",
        ],
    ),
    "init runs": (
        lambda: decided(pod_of(("app",), ("i",)), at("i")),
        [
            "container i: keep: it runs as specified (idle)",
            "container app: wait: init containers have not completed (idle)",
        ],
    ),
    "init failed": (
        lambda: decided(pod_of(("app",), ("i",), **NEVER), at("i", state=EXITED, exit_code=2)),
        ["pod : stop: an init container has failed, and is not restarted"],
    ),
    "ephemeral container": (
        lambda: decided(
            pod_of(ephemeralContainers=[{"name": "debug", "image": "i"}, {"name": "runs", "image": "i"}]),
            at("app"),
            at("runs"),
        ),
        [
            "container debug: start: it has not been created yet",
            "container app: keep: it runs as specified (idle)",
        ],
    ),
    "sidecar first": (
        lambda: decided(pod_of(("app",), (sidecar("s"),))),
        [
            "container s: start: it has not been created yet",
            "container app: wait: init containers have not completed (idle)",
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_decision_gives_the_reason_of_its_case(name: str) -> None:
    decide, wanted = CASES[name]
    assert decide() == wanted
