"""Statuses of a pod that are held back, and those that are sent at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pykubelet.kubelet.report.status.plan.delivery import HOLD_SECONDS, hold_seconds
from pykubelet.models import core_v1 as core
from tests.unit.kubelet.report.status.build import (
    RUNNING,
    STARTING,
    STOPPING,
    UNREADY,
    WITH_SANDBOX,
    condition,
    runs,
    waiting,
)


def ended(exit_code: int = 0, name: str = "init") -> core.ContainerStatus:
    state = core.ContainerState(terminated=core.ContainerStateTerminated(exit_code=exit_code))
    return replace(waiting(name=name), state=state, ready=exit_code == 0)


NEW = core.PodStatus(phase="Pending", qos_class="BestEffort")
RESIZE = condition("PodResizePending", "True", "Deferred")
EPHEMERAL = (waiting(name="debug"),)


@pytest.mark.parametrize(
    ("known", "new"),
    [
        (NEW, STARTING),
        (core.PodStatus(), STARTING),
        (STARTING, WITH_SANDBOX),
        (NEW, replace(STARTING, init_container_statuses=(waiting("PodInitializing", "init"),))),
        (STARTING, replace(STARTING, init_container_statuses=(ended(0),))),
        (STARTING, replace(STARTING, init_container_statuses=(runs("init"),))),
        (NEW, replace(STARTING, conditions=(*STARTING.conditions, condition("example.com/theirs")))),
    ],
)
def test_progress_of_a_start_is_held(known: core.PodStatus, new: core.PodStatus) -> None:
    assert hold_seconds(known, new, deleted=False) == HOLD_SECONDS


@pytest.mark.parametrize(
    ("known", "new"),
    [
        (STARTING, RUNNING),
        (NEW, RUNNING),
        (NEW, replace(STARTING, phase="Failed", reason="OutOfcpu")),
        (STARTING, replace(STARTING, phase="Succeeded")),
        (RUNNING, UNREADY),
        (UNREADY, RUNNING),
        (RUNNING, STARTING),
        (STARTING, replace(STARTING, reason="Why")),
        (STARTING, replace(STARTING, message="why")),
        *((STARTING, replace(STARTING, container_statuses=(waiting(reason),))) for reason in ("ErrImagePull", "Other")),
        (STARTING, replace(STARTING, init_container_statuses=(waiting("CrashLoopBackOff"),))),
        (STARTING, replace(STARTING, init_container_statuses=(ended(1),))),
        (STARTING, replace(STARTING, init_container_statuses=(replace(runs("init"), restart_count=1),))),
        (STARTING, replace(STARTING, conditions=(*STARTING.conditions, RESIZE))),
        (replace(STARTING, conditions=(*STARTING.conditions, RESIZE)), STARTING),
        (STARTING, replace(STARTING, conditions=(*STARTING.conditions, condition("DisruptionTarget")))),
        (STARTING, replace(STARTING, ephemeral_container_statuses=EPHEMERAL)),
    ],
)
def test_outcomes_are_sent_at_once(known: core.PodStatus, new: core.PodStatus) -> None:
    assert hold_seconds(known, new, deleted=False) == 0


def test_status_of_a_failing_pod_is_sent_at_once() -> None:
    """A known reason that persists is not progress."""
    failing = replace(STARTING, container_statuses=(waiting("ErrImagePull"),))
    assert hold_seconds(failing, replace(failing, pod_ip="10.1.0.1"), deleted=False) == 0


def test_lost_sandbox_of_a_deleted_pod_is_held_and_lost_readiness_is_not() -> None:
    assert hold_seconds(RUNNING, STOPPING, deleted=True) == HOLD_SECONDS
    assert hold_seconds(RUNNING, UNREADY, deleted=True) == 0


@pytest.mark.parametrize(
    "new",
    [
        replace(STOPPING, container_statuses=(ended(0, "app"),)),
        replace(STOPPING, container_statuses=(replace(runs(ready=False), container_id="other"),)),
        replace(STOPPING, init_container_statuses=(ended(0),)),
        replace(STOPPING, phase="Succeeded"),
        replace(STOPPING, phase="Failed", reason="Evicted"),
        replace(STOPPING, reason="Why"),
        replace(STOPPING, conditions=(*STOPPING.conditions, condition("DisruptionTarget"))),
        replace(STOPPING, ephemeral_container_statuses=EPHEMERAL),
    ],
)
def test_other_changes_of_a_deleted_pod_are_sent_at_once(new: core.PodStatus) -> None:
    assert hold_seconds(RUNNING, new, deleted=True) == 0


@given(
    st.sampled_from([NEW, STARTING, WITH_SANDBOX, RUNNING, UNREADY]),
    st.sampled_from(["Running", "Succeeded", "Failed"]),
    st.booleans(),
)
def test_change_of_phase_is_never_held(known: core.PodStatus, phase: str, deleted: bool) -> None:
    if known.phase != phase:
        assert hold_seconds(known, replace(known, phase=phase), deleted=deleted) == 0
