# ruff: noqa: E501 - a table is read by its lines
"""compute_pod_actions: table of pod states and the expected actions."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.kubelet.actuate.podruntime.plan.actions import compute_pod_actions
from pykubelet.kubelet.actuate.podruntime.podruntime_types import KillReason, PodActions
from pykubelet.kubelet.types.ids import ContainerID, SandboxID
from pykubelet.kubelet.types.probes import ContainerProbes, ProbeResult
from pykubelet.kubelet.types.runtime import ContainerState, ContainerStatus, PodRuntimeStatus, SandboxStatus
from pykubelet.models.core_v1 import Pod
from tests.unit.kubelet.actuate.podruntime.build import (
    CREATED,
    DEAD,
    DONE,
    EXITED,
    FAILED,
    HTTP,
    NOT_STARTED,
    RUNNING,
    STARTED,
    UNKNOWN,
    Fields,
    at,
    box,
    pod_of,
    probes,
    sidecar,
    state_of,
)


@dataclass(frozen=True)
class WantedActions:
    """Expected actions, with the names of the containers."""

    start: str = ""
    init: str = ""
    ephemeral: str = ""
    kill: str = ""
    """Ids."""
    reset: str = ""
    """Ids in order, with + for those that run."""
    kill_pod: bool = False
    create: bool = False
    attempt: int = 0


NOTHING = WantedActions()
END = WantedActions(kill_pod=True)


@dataclass(frozen=True)
class Case:
    name: str
    pod: Pod
    containers: tuple[ContainerStatus, ...]
    want: WantedActions
    boxes: tuple[SandboxStatus, ...] = (box(),)
    probes: dict[ContainerID, ContainerProbes] = field(default_factory=dict)


def summary(actions: PodActions) -> WantedActions:
    return WantedActions(
        start=" ".join(c.name for c in actions.start),
        init=" ".join(c.name for c in actions.start_init),
        ephemeral=" ".join(c.name for c in actions.start_ephemeral),
        kill=" ".join(k.id for k in actions.kill),
        reset=" ".join(r.id + "+" * r.running for r in actions.reset),
        kill_pod=actions.kill_pod,
        create=actions.create_sandbox,
        attempt=actions.attempt,
    )


def new(**fields: object) -> WantedActions:
    """A new sandbox."""
    return WantedActions(kill_pod=True, create=True, **fields)  # type: ignore[arg-type]  # the table is checked by the test


OLD: Fields = {"sandbox_id": SandboxID("s0")}
NEVER: Fields = {"restartPolicy": "Never"}
ON_FAILURE: Fields = {"restartPolicy": "OnFailure"}
GONE = (box(ready=False),)


def rule(action: str, operator: str, *codes: int, policy: str = "Never") -> Fields:
    return {
        "name": "app",
        "restartPolicy": policy,
        "restartPolicyRules": [{"action": action, "exitCodes": {"operator": operator, "values": list(codes)}}],
    }


SANDBOX_CASES = [
    Case("nothing there", pod_of(("a", "b")), (), new(start="a b"), ()),
    Case("nothing there, with init containers", pod_of(("a",), ("i", "j")), (), new(init="i"), ()),
    Case("sandbox died, all runs again", pod_of(("a", "b")), (at("a", **FAILED), at("b", **FAILED)), new(start="a b", attempt=1), GONE),
    Case("sandbox died before any container", pod_of(**NEVER), (), new(start="app", attempt=1), GONE),
    Case("sandbox died, run-once pod has run", pod_of(**NEVER), (at("app", **FAILED),), WantedActions(kill_pod=True, attempt=1), GONE),
    Case("sandbox died, run-once pod was only created", pod_of(**NEVER), (at("app", state=CREATED),), new(start="app", attempt=1), GONE),
    Case("records without a sandbox, run-once pod has run", pod_of(**NEVER), (at("app", **DONE),), END, ()),
    Case("sandbox died, one of two still to succeed", pod_of(("a", "b"), **ON_FAILURE), (at("a", **DONE), at("b", **FAILED)), new(start="b", attempt=1), GONE),
    Case("sandbox died, all have succeeded", pod_of(("a", "b"), **ON_FAILURE), (at("a", **DONE), at("b", **DONE)), WantedActions(kill_pod=True, attempt=1), GONE),
    Case("sandbox died, own policy OnFailure and done", pod_of(({"name": "a", "restartPolicy": "OnFailure"}, "b")), (at("a", **DONE), at("b", **DONE)), new(start="b", attempt=1), GONE),
    Case("sandbox died, own policy Always in OnFailure pod", pod_of(({"name": "a", "restartPolicy": "Always"},), **ON_FAILURE), (at("a", **DONE),), new(start="a", attempt=1), GONE),
    Case("sandbox died, init starts over", pod_of(("a",), ("i", "j")), (at("i", **DONE), at("j", **DONE), at("a", **FAILED)), new(init="i", attempt=1), GONE),
    Case("sandbox died during init", pod_of(("a",), ("i",), **ON_FAILURE), (at("i", **DONE),), new(init="i", attempt=1), GONE),
    Case("two sandboxes ready", pod_of(), (at("app"),), new(start="app", attempt=2), (box("s0"), box("s1", attempt=1))),
    Case("newest not ready though an older one is", pod_of(), (at("app"),), new(start="app", attempt=2), (box("s0"), box("s1", ready=False, attempt=1))),
    Case("older one dead", pod_of(), (at("app"),), WantedActions(attempt=1), (box("s0", ready=False), box("s1", attempt=1))),
    Case("attempt above all others", pod_of(), (), new(start="app", attempt=8), (SandboxStatus(SandboxID("x"), False, 3, 9e9), box("s7", ready=False, attempt=7))),
    Case("no address", pod_of(), (), new(start="app", attempt=1), (box(ips=()),)),
    Case("no address but on the host's network", pod_of(hostNetwork=True), (at("app"),), NOTHING, (box(ips=(), host=True),)),
    Case("pod moved to the host's network", pod_of(hostNetwork=True), (at("app"),), new(start="app", attempt=1)),
    Case("pod left the host's network", pod_of(), (at("app"),), new(start="app", attempt=1), (box(host=True),)),
]  # fmt: skip

CONTAINER_CASES = [
    Case("fresh sandbox", pod_of(("a", "b")), (), WantedActions(start="a b")),
    Case("all run", pod_of(("a", "b")), (at("a"), at("b")), NOTHING),
    Case("one is missing", pod_of(("a", "b")), (at("b"),), WantedActions(start="a")),
    Case("created, never started", pod_of(), (at("app", state=CREATED),), WantedActions(start="app")),
    Case("created, never started, run-once", pod_of(**NEVER), (at("app", state=CREATED),), WantedActions(start="app")),
    Case("runs; a newer one was created by an interrupted agent", pod_of(), (at("app"), at("app", state=CREATED, restart_count=1)), NOTHING),
    Case("runs in an earlier sandbox", pod_of(("app", "b")), (at("app", **OLD),), WantedActions(kill="app-0")),
    Case("ended, newer attempt runs", pod_of(), (at("app", **FAILED), at("app", restart_count=1)), NOTHING),
    Case("runs twice", pod_of(), (at("app"), at("app", restart_count=1)), WantedActions(kill="app-0")),
    Case("Always: failed", pod_of(), (at("app", **FAILED),), WantedActions(start="app")),
    Case("Always: succeeded", pod_of(), (at("app", **DONE),), WantedActions(start="app")),
    Case("OnFailure: failed", pod_of(**ON_FAILURE), (at("app", **FAILED),), WantedActions(start="app")),
    Case("OnFailure: succeeded", pod_of(**ON_FAILURE), (at("app", **DONE),), END),
    Case("Never: failed", pod_of(**NEVER), (at("app", **FAILED),), END),
    Case("Never: succeeded", pod_of(**NEVER), (at("app", **DONE),), END),
    Case("Never: one of two still runs", pod_of(("a", "b"), **NEVER), (at("a", **FAILED), at("b")), NOTHING),
    Case("OnFailure: one done, one failed", pod_of(("a", "b"), **ON_FAILURE), (at("a", **DONE), at("b", **FAILED)), WantedActions(start="b")),
    Case("own policy Never in Always pod", pod_of(({"name": "a", "restartPolicy": "Never"}, "b")), (at("a", **FAILED), at("b")), NOTHING),
    Case("own policy Always in Never pod", pod_of(({"name": "a", "restartPolicy": "Always"},), **NEVER), (at("a", **DONE),), WantedActions(start="a")),
    Case("own policy OnFailure, done", pod_of(({"name": "a", "restartPolicy": "OnFailure"},)), (at("a", **DONE),), END),
    Case("rule In matches", pod_of((rule("Restart", "In", 42),)), (at("app", state=EXITED, exit_code=42),), WantedActions(start="app")),
    Case("rule In does not match", pod_of((rule("Restart", "In", 42),)), (at("app", **FAILED),), END),
    Case("rule NotIn matches", pod_of((rule("Restart", "NotIn", 42),)), (at("app", **FAILED),), WantedActions(start="app")),
    Case("rule NotIn does not match", pod_of((rule("Restart", "NotIn", 42),)), (at("app", state=EXITED, exit_code=42),), END),
    Case("rule of an unknown operator", pod_of((rule("Restart", "Above", 1),)), (at("app", **FAILED),), END),
    Case("rule of an unknown action", pod_of((rule("Explode", "In", 1),)), (at("app", **FAILED),), END),
    Case("rules count only with an own policy", pod_of((rule("Restart", "In", 1, policy=""),), **NEVER), (at("app", **FAILED),), END),
    Case("unknown state: killed and started", pod_of(), (at("app", state=UNKNOWN),), WantedActions(start="app", kill="app-0")),
    Case("unknown state, run-once", pod_of(**NEVER), (at("app", state=UNKNOWN),), WantedActions(start="app", kill="app-0")),
    Case("definition changed", pod_of(({"name": "app", "image": "app:2"},)), (at("app"),), WantedActions(start="app", kill="app-0")),
    Case("definition changed, run-once", pod_of(({"name": "app", "image": "app:2"},), **NEVER), (at("app"),), WantedActions(start="app", kill="app-0")),
    Case("definition changed of an ended one", pod_of(({"name": "app", "image": "app:2"},), **NEVER), (at("app", **DONE),), END),
    Case("liveness failed", pod_of(), (at("app"),), WantedActions(start="app", kill="app-0"), probes=probes(app_0=DEAD)),
    Case("liveness failed, run-once", pod_of(("app", "b"), **NEVER), (at("app"), at("b")), WantedActions(kill="app-0"), probes=probes(app_0=DEAD)),
    Case("liveness failed, run-once and alone: the pod ends", pod_of(**NEVER), (at("app"),), END, probes=probes(app_0=DEAD)),
    Case("liveness failed, own policy Never", pod_of(({"name": "a", "restartPolicy": "Never"}, "b")), (at("a"), at("b")), WantedActions(kill="a-0"), probes=probes(a_0=DEAD)),
    Case("liveness failed, own policy Always in Never pod", pod_of(({"name": "a", "restartPolicy": "Always"},), **NEVER), (at("a"),), WantedActions(start="a", kill="a-0"), probes=probes(a_0=DEAD)),
    Case("liveness failed of an earlier attempt", pod_of(), (at("app", **FAILED), at("app", restart_count=1)), NOTHING, probes=probes(app_0=DEAD)),
    Case("startup failed", pod_of(), (at("app"),), WantedActions(start="app", kill="app-0"), probes=probes(app_0=NOT_STARTED)),
    Case("startup not known yet", pod_of(({"name": "app", "startupProbe": HTTP},)), (at("app"),), NOTHING),
    Case("readiness failed", pod_of(), (at("app"),), NOTHING, probes=probes(app_0=ContainerProbes(readiness=ProbeResult.FAILURE))),
    Case("being deleted: nothing is restarted", pod_of(("a", "b"), meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}), (at("a", **FAILED), at("b")), NOTHING),
    Case("a container that the spec does not name", pod_of(), (at("app"), at("unknown")), NOTHING),
]  # fmt: skip

INIT_CASES = [
    Case("first init container", pod_of(("a",), ("i", "j")), (), WantedActions(init="i")),
    Case("first one runs", pod_of(("a",), ("i", "j")), (at("i"),), NOTHING),
    Case("first one done", pod_of(("a",), ("i", "j")), (at("i", **DONE),), WantedActions(init="j")),
    Case("all done", pod_of(("a",), ("i", "j")), (at("i", **DONE), at("j", **DONE)), WantedActions(start="a")),
    Case("record of the first one removed", pod_of(("a",), ("i", "j")), (at("j"),), NOTHING),
    Case("record of the first one removed, last done", pod_of(("a",), ("i", "j")), (at("j", **DONE),), WantedActions(start="a")),
    Case("all records removed, ordinary one runs", pod_of(("a",), ("i",)), (at("a"),), NOTHING),
    Case("all records removed, ordinary one ended here", pod_of(("a",), ("i",)), (at("a", **FAILED),), WantedActions(start="a")),
    Case("done in an earlier sandbox only", pod_of(("a",), ("i", "j")), (at("i", **DONE, **OLD), at("j", **DONE, **OLD), at("a", **FAILED, **OLD)), WantedActions(init="i")),
    Case("created, never started", pod_of(("a",), ("i",)), (at("i", state=CREATED),), WantedActions(init="i")),
    Case("pre-created, the one before runs", pod_of(("a",), ("i", "j")), (at("i"), at("j", state=CREATED)), NOTHING),
    Case("pre-created, the one before has failed", pod_of(("a",), ("i", "j")), (at("i", **FAILED), at("j", state=CREATED)), WantedActions(init="i")),
    Case("pre-created, the one before is done", pod_of(("a",), ("i", "j")), (at("i", **DONE), at("j", state=CREATED)), WantedActions(init="j")),
    Case("pre-created, the one before is forgotten", pod_of(("a",), ("i", "j")), (at("j", state=CREATED),), WantedActions(init="j")),
    Case("ordinary one pre-created, the last runs", pod_of(("a",), ("i",)), (at("i"), at("a", state=CREATED)), NOTHING),
    Case("ordinary one pre-created, the last is done", pod_of(("a",), ("i",)), (at("i", **DONE), at("a", state=CREATED)), WantedActions(start="a")),
    Case("ordinary one pre-created, the last is forgotten", pod_of(("a",), ("i",)), (at("a", state=CREATED),), WantedActions(start="a")),
    Case("failed: again", pod_of(("a",), ("i",)), (at("i", **FAILED),), WantedActions(init="i")),
    Case("failed, OnFailure: again", pod_of(("a",), ("i",), **ON_FAILURE), (at("i", **FAILED),), WantedActions(init="i")),
    Case("failed, Never: the pod has failed", pod_of(("a",), ("i",), **NEVER), (at("i", **FAILED),), END),
    Case("failed, own policy OnFailure in Never pod", pod_of(("a",), ({"name": "i", "restartPolicy": "OnFailure"},), **NEVER), (at("i", **FAILED),), WantedActions(init="i")),
    Case("failed, own policy Never in Always pod", pod_of(("a",), ({"name": "i", "restartPolicy": "Never"},)), (at("i", **FAILED),), END),
    Case("failed, a rule restarts it", pod_of(("a",), ({**rule("Restart", "In", 1), "name": "i"},), **NEVER), (at("i", **FAILED),), WantedActions(init="i")),
    Case("only a failure of an earlier one is still known", pod_of(("a",), ("i", "j"), **NEVER), (at("i", **FAILED), at("j")), NOTHING),
    Case("out of memory with exit code 0", pod_of(("a",), ("i",)), (at("i", **DONE, reason="OOMKilled"),), WantedActions(init="i")),
    Case("unknown state", pod_of(("a",), ("i",)), (at("i", state=UNKNOWN),), WantedActions(init="i", kill="i-0")),
    Case("unknown state, Never", pod_of(("a",), ("i",), **NEVER), (at("i", state=UNKNOWN),), END),
    Case("changed definition of a done one", pod_of(("a",), ({"name": "i", "image": "x:2"},)), (at("i", **DONE), at("a")), NOTHING),
    Case("ordinary ones wait while one fails", pod_of(("a",), ("i", "j")), (at("i", **DONE), at("j", **FAILED)), WantedActions(init="j")),
    Case("pod done, Never", pod_of(("a",), ("i",), **NEVER), (at("i", **DONE), at("a", **DONE)), END),
]  # fmt: skip

PROBED: Fields = {"startupProbe": HTTP, "livenessProbe": HTTP}
SIDECAR_CASES = [
    Case("first", pod_of(("a",), (sidecar("s"), "i")), (), WantedActions(init="s")),
    Case("runs: the next may start", pod_of(("a",), (sidecar("s"), "i")), (at("s"),), WantedActions(init="i")),
    Case("runs and is last: initialised", pod_of(("a",), ("i", sidecar("s"))), (at("i", **DONE), at("s")), WantedActions(start="a")),
    Case("two sidecars, first runs", pod_of(("a",), (sidecar("s"), sidecar("t"))), (at("s"),), WantedActions(init="t")),
    Case("startup probe not known", pod_of(("a",), (sidecar("s", startupProbe=HTTP), "i")), (at("s"),), NOTHING),
    Case("startup probe passed", pod_of(("a",), (sidecar("s", startupProbe=HTTP), "i")), (at("s"),), WantedActions(init="i"), probes=probes(s_0=STARTED)),
    Case("startup probe failed", pod_of(("a",), (sidecar("s", startupProbe=HTTP), "i")), (at("s"),), WantedActions(init="s", kill="s-0"), probes=probes(s_0=NOT_STARTED)),
    Case("startup failed while ordinary ones run", pod_of(("a",), (sidecar("s", startupProbe=HTTP),)), (at("s"), at("a")), WantedActions(init="s", kill="s-0"), probes=probes(s_0=NOT_STARTED)),
    Case("liveness failed", pod_of(("a",), (sidecar("s", **PROBED),)), (at("s"), at("a")), WantedActions(init="s", kill="s-0"), probes=probes(s_0=DEAD)),
    Case("liveness not known", pod_of(("a",), (sidecar("s", livenessProbe=HTTP),)), (at("s"), at("a")), NOTHING),
    Case("liveness failed during init: the next may still start", pod_of(("a",), (sidecar("s", livenessProbe=HTTP), "i")), (at("s"),), WantedActions(init="s i", kill="s-0"), probes=probes(s_0=ContainerProbes(liveness=ProbeResult.FAILURE))),
    Case("ended while ordinary ones run", pod_of(("a",), (sidecar("s"),)), (at("s", **FAILED), at("a")), WantedActions(init="s")),
    Case("ended with 0 in a Never pod", pod_of(("a",), (sidecar("s"),), **NEVER), (at("s", **DONE), at("a")), WantedActions(init="s")),
    Case("ended before the next init container", pod_of(("a",), (sidecar("s"), "i")), (at("s", **FAILED),), WantedActions(init="s")),
    Case("ended beside a running init container", pod_of(("a",), (sidecar("s"), "i")), (at("s", **FAILED), at("i")), WantedActions(init="s")),
    Case("record removed while ordinary ones run", pod_of(("a",), (sidecar("s"), "i")), (at("a"),), WantedActions(init="s")),
    Case("record removed during init", pod_of(("a",), (sidecar("s"), "i")), (at("i"),), WantedActions(init="s")),
    Case("unknown state", pod_of(("a",), (sidecar("s"),), **NEVER), (at("s", state=UNKNOWN), at("a")), WantedActions(init="s", kill="s-0")),
    Case("created, never started", pod_of(("a",), (sidecar("s"),)), (at("s", state=CREATED),), WantedActions(init="s")),
    Case("definition changed", pod_of(("a",), (sidecar("s", image="x:2"),)), (at("s"), at("a")), WantedActions(init="s", kill="s-0")),
    Case("definition changed during init", pod_of(("a",), (sidecar("s", image="x:2"), "i")), (at("s"),), WantedActions(init="s i", kill="s-0")),
    Case("pod is done: not restarted", pod_of(("a",), (sidecar("s"),), **NEVER), (at("s", **FAILED), at("a", **DONE)), END),
    Case("pod is done: sidecar still runs", pod_of(("a",), (sidecar("s"),), **ON_FAILURE), (at("s"), at("a", **DONE)), END),
    Case("several to restart keep their order", pod_of(("a",), (sidecar("s"), "i", sidecar("t"))), (at("s", **FAILED), at("t", **FAILED), at("a")), WantedActions(init="s t")),
    Case("ordinary one fails beside it", pod_of(("a",), (sidecar("s"),)), (at("s"), at("a", **FAILED)), WantedActions(start="a")),
    Case("from an earlier sandbox", pod_of(("a",), (sidecar("s"),)), (at("s", **FAILED, **OLD),), WantedActions(init="s")),
]  # fmt: skip

ALL = rule("RestartAllContainers", "In", 9)
NINE: Fields = {"state": EXITED, "exit_code": 9}
OTHER_CASES = [
    Case("ephemeral starts", pod_of(("a",), (), ("e",)), (at("a"),), WantedActions(ephemeral="e")),
    Case("ephemeral starts once", pod_of(("a",), (), ("e",)), (at("a"), at("e", **FAILED)), NOTHING),
    Case("ephemeral was interrupted at creation", pod_of(("a",), (), ("e",)), (at("a"), at("e", state=CREATED)), WantedActions(ephemeral="e")),
    Case("ephemeral starts during init", pod_of(("a",), ("i",), ("e",)), (at("i"),), WantedActions(ephemeral="e")),
    Case("ephemeral waits for the sandbox", pod_of(("a",), (), ("e",)), (), new(start="a"), ()),
    Case("ephemeral does not keep a pod alive", pod_of(("a",), (), ("e",), **NEVER), (at("a", **DONE), at("e")), END),
    Case("reset: the cause goes last", pod_of((ALL, "b"), ("i",)), (at("i", **DONE), at("app", **NINE), at("b")), WantedActions(reset="b-0+ i-0 app-0")),
    Case("reset: earlier attempts too", pod_of((ALL, "b")), (at("app", **FAILED), at("app", restart_count=1, **NINE), at("b")), WantedActions(reset="app-0 b-0+ app-1")),
    Case("reset: taken up again", pod_of((ALL, "b")), (at("app", **NINE),), WantedActions(reset="app-0")),
    Case("reset by an init container", pod_of(("a",), ({**ALL, "name": "i"},)), (at("i", **NINE),), WantedActions(reset="i-0")),
    Case("no reset: already restarted", pod_of((ALL, "b")), (at("app", **NINE), at("app", restart_count=1), at("b")), NOTHING),
    Case("no reset: other exit code", pod_of((ALL, "b")), (at("app", **FAILED), at("b")), NOTHING),
    Case("no reset: ended in an earlier sandbox", pod_of((ALL, "b")), (at("app", **NINE, **OLD), at("b")), WantedActions(start="app")),
]  # fmt: skip

CASES = [*SANDBOX_CASES, *CONTAINER_CASES, *INIT_CASES, *SIDECAR_CASES, *OTHER_CASES]


def case_id(case: Case) -> str:
    groups = {
        "sandbox": SANDBOX_CASES,
        "container": CONTAINER_CASES,
        "init": INIT_CASES,
        "sidecar": SIDECAR_CASES,
        "other": OTHER_CASES,
    }
    group = next(name for name, cases in groups.items() if any(c is case for c in cases))
    return f"{group}: {case.name}"


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_actions_of_a_pod_are_those_of_its_state(case: Case) -> None:
    status = state_of(case.pod, *case.containers, boxes=case.boxes)
    actions = compute_pod_actions(case.pod, status, case.probes)
    assert summary(actions) == case.want
    assert actions.idle is (case.want == WantedActions(attempt=case.want.attempt))


@pytest.mark.parametrize(
    ("pod", "status", "results", "reason", "message"),
    [
        (pod_of(), at("app"), probes(app_0=DEAD), KillReason.LIVENESS_PROBE,
         "Container app failed liveness probe, will be restarted"),
        (pod_of(("app", "b"), **NEVER), at("app"), probes(app_0=DEAD), KillReason.LIVENESS_PROBE,
         "Container app failed liveness probe"),
        (pod_of(), at("app"), probes(app_0=NOT_STARTED), KillReason.STARTUP_PROBE,
         "Container app failed startup probe, will be restarted"),
        (pod_of(({"name": "app", "image": "app:2"},)), at("app"), {}, KillReason.UNKNOWN,
         "Container app definition changed, will be restarted"),
        (pod_of(), at("app", state=UNKNOWN), {}, KillReason.UNKNOWN,
         'Container is in "unknown" state, try killing it before restart'),
        (pod_of(("a",), ("i",)), at("i", state=UNKNOWN), {}, KillReason.UNKNOWN,
         'Init container is in "unknown" state, try killing it before restart'),
        (pod_of(("a",), (sidecar("s", startupProbe=HTTP),)), at("s"), probes(s_0=NOT_STARTED),
         KillReason.STARTUP_PROBE, "Init container s failed startup probe"),
        (pod_of(("a",), (sidecar("s", livenessProbe=HTTP),)), at("s"), probes(s_0=DEAD),
         KillReason.LIVENESS_PROBE, "Init container s failed liveness probe"),
        (pod_of(("a",), (sidecar("s", image="x"),)), at("s"), {}, KillReason.UNKNOWN,
         "Init container s definition changed"),
    ],
)  # fmt: skip
def test_kill_reasons_and_messages_are_those_of_the_go_kubelet(
    pod: Pod, status: ContainerStatus, results: dict[ContainerID, ContainerProbes], reason: KillReason, message: str
) -> None:
    (kill,) = compute_pod_actions(pod, state_of(pod, status), results).kill
    assert (kill.reason, kill.message) == (reason, message)


NAMES = ("a", "b", "s", "i", "e")
SPEC = pod_of(("a", "b"), (sidecar("s"), "i"), ("e",))


@st.composite
def runtime_states(draw: st.DrawFn) -> PodRuntimeStatus:
    boxes = [
        box(f"s{n}", ready=draw(st.booleans()), attempt=n, ips=("10.0.0.1",) if draw(st.booleans()) else ())
        for n in range(draw(st.integers(0, 3)))
    ]
    containers = [
        at(
            name,
            restart_count=count,
            state=draw(st.sampled_from(ContainerState)),
            exit_code=draw(st.sampled_from([0, 1])),
            sandbox_id=SandboxID(f"s{draw(st.integers(0, 3))}"),
        )
        for name in NAMES
        for count in range(draw(st.integers(0, 2)))
    ]
    return state_of(SPEC, *containers, boxes=boxes)


@given(runtime_states(), st.sampled_from(["Always", "OnFailure", "Never"]))
def test_running_duplicate_is_killed_before_anything_starts(status: PodRuntimeStatus, policy: str) -> None:
    """Whatever the runtime says: nothing that runs is started again unless it is killed before."""
    pod = pod_of(("a", "b"), (sidecar("s"), "i"), ("e",), restartPolicy=policy)
    actions = compute_pod_actions(pod, status, {})
    killed = {k.id for k in actions.kill}
    starting = {c.name for c in (*actions.start, *actions.start_init)} | {c.name for c in actions.start_ephemeral}
    if not actions.kill_pod:
        for container in status.containers:
            if container.state is RUNNING and container.name in starting:
                assert container.id in killed
    if actions.create_sandbox:
        assert actions.kill_pod
        assert actions.attempt not in {s.attempt for s in status.sandboxes}
    assert not (actions.start and actions.start_init and actions.create_sandbox)


@given(runtime_states())
def test_terminated_pod_is_not_started_again(status: PodRuntimeStatus) -> None:
    """Once a pod is ended, its stopped state is not started again."""
    pod = pod_of(("a", "b"), **NEVER)
    if not compute_pod_actions(pod, status, {}).kill_pod or compute_pod_actions(pod, status, {}).create_sandbox:
        return
    stopped = state_of(
        pod,
        *(at(c.name, restart_count=c.restart_count, state=EXITED, exit_code=137) for c in status.containers),
        boxes=[box(s.id, ready=False, attempt=s.attempt) for s in status.sandboxes],
    )
    after = compute_pod_actions(pod, stopped, {})
    assert not (after.create_sandbox or after.start)
