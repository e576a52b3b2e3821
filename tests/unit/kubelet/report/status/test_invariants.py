"""Statuses that may follow another one, and the final status."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from pykubelet.kubelet.report.status.plan.invariants import final_status, forward_only
from pykubelet.models import core_v1 as core
from pykubelet.models.scalars import time_from_unix
from tests.unit.kubelet.report.pods import NOW, container, pod, sidecar


def status(name: str, word: str, count: int = 0) -> core.ContainerStatus:
    state, _, last = word.partition("<")
    return core.ContainerStatus(
        name=name,
        ready=state == "up",
        started=state == "up",
        restart_count=count,
        state=_state(state),
        last_state=_state(last) if last else None,
    )


def _state(word: str) -> core.ContainerState:
    match word:
        case "up" | "run":
            return core.ContainerState(running=core.ContainerStateRunning())
        case "wait":
            return core.ContainerState(waiting=core.ContainerStateWaiting())
    return core.ContainerState(terminated=core.ContainerStateTerminated(exit_code=int(word)))


def word(value: core.ContainerStatus) -> str:
    state = value.state
    assert state is not None
    if state.terminated is not None:
        return str(state.terminated.exit_code)
    return "run" if state.running is not None else "wait"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("Succeeded", "Running", "Succeeded"),
        ("Failed", "Succeeded", "Failed"),
        ("Running", "Pending", "Pending"),
        ("Running", "Failed", "Failed"),
        ("", "Pending", "Pending"),
    ],
)
def test_terminal_phase_stays(before: str, after: str, expected: str) -> None:
    old = core.PodStatus(phase=before, reason="Old")
    new = core.PodStatus(phase=after, reason="New")
    got = forward_only(pod(), old, new)
    assert (got.phase, got.reason) == (expected, "Old" if before == expected != after else "New")


@pytest.mark.parametrize(
    ("policy", "before", "after", "expected"),
    [
        ("Never", "1", "run", "1"),
        ("Never", "0", "wait", "0"),
        ("OnFailure", "0", "run", "0"),
        ("OnFailure", "1", "run", "run"),
        ("Always", "0", "run", "run"),
        ("Never", "1", "2", "2"),
        ("Never", "run", "wait", "wait"),
    ],
)
def test_container_that_ended_for_good_does_not_run_again(policy: str, before: str, after: str, expected: str) -> None:
    value = pod(init=[container("i0")], restart_policy=policy)
    old = core.PodStatus(container_statuses=(status("app", before),), init_container_statuses=(status("i0", before),))
    new = core.PodStatus(container_statuses=(status("app", after),), init_container_statuses=(status("i0", after),))
    got = forward_only(value, old, new)
    assert word(got.container_statuses[0]) == word(got.init_container_statuses[0]) == expected


def test_a_sidecar_may_always_run_again() -> None:
    value = pod(init=[sidecar("s")], restart_policy="Never")
    old = core.PodStatus(init_container_statuses=(status("s", "1"),))
    new = core.PodStatus(init_container_statuses=(status("s", "run"),))
    assert forward_only(value, old, new) == new


def test_restart_count_and_start_time_do_not_go_back() -> None:
    old = core.PodStatus(container_statuses=(status("app", "run", 5),), start_time=time_from_unix(NOW))
    new = core.PodStatus(container_statuses=(status("app", "run", 2),), start_time=time_from_unix(NOW + 9))
    got = forward_only(pod(), old, new)
    assert (got.container_statuses[0].restart_count, got.start_time) == (5, time_from_unix(NOW))


@pytest.mark.parametrize(
    ("init", "words", "got_init", "got_words"),
    [
        ((), ("run", "wait", "0"), [], ["137", "137", "0"]),
        (("0",), ("run",), ["0"], ["137"]),
        (("0",), ("wait",), ["0"], ["137"]),
        (("wait<0",), ("wait",), ["137"], ["137"]),
        (("run",), ("wait",), ["137"], ["wait"]),
        (("wait", "wait"), ("wait",), ["137", "wait"], ["wait"]),
        (("0", "run", "wait"), ("wait",), ["0", "137", "wait"], ["wait"]),
        (("0", "wait<1", "wait"), ("wait",), ["0", "137", "wait"], ["wait"]),
        (("0", "wait"), ("wait<1",), ["0", "wait"], ["137"]),
    ],
)
def test_final_status_of_containers(
    init: Sequence[str], words: Sequence[str], got_init: list[str], got_words: list[str]
) -> None:
    value = pod(*(container(f"c{i}") for i in range(len(words))), init=[container(f"i{i}") for i in range(len(init))])
    before = core.PodStatus(
        phase="Running",
        init_container_statuses=tuple(status(f"i{i}", w) for i, w in enumerate(init)),
        container_statuses=tuple(status(f"c{i}", w) for i, w in enumerate(words)),
    )
    got = final_status(value, before)
    assert [word(s) for s in got.init_container_statuses] == got_init
    assert [word(s) for s in got.container_statuses] == got_words
    assert not any(s.ready for s in got.container_statuses)


@pytest.mark.parametrize(("sidecar_word", "expected"), [("up", "137"), ("run", "wait")])
def test_a_pod_whose_last_init_container_is_a_sidecar(sidecar_word: str, expected: str) -> None:
    value = pod(container("c0"), init=[sidecar("s")])
    before = core.PodStatus(
        init_container_statuses=(status("s", sidecar_word),), container_statuses=(status("c0", "wait"),)
    )
    assert word(final_status(value, before).container_statuses[0]) == expected


@pytest.mark.parametrize(
    ("phase", "static", "expected"),
    [
        ("Running", True, "Running"),
        ("Running", False, "Failed"),
        ("Pending", False, "Failed"),
        ("", False, "Failed"),
        ("Succeeded", False, "Succeeded"),
        ("Succeeded", True, "Succeeded"),
    ],
)
def test_final_status_phase(phase: str, static: bool, expected: str) -> None:
    assert final_status(pod(static=static), core.PodStatus(phase=phase)).phase == expected


def test_a_container_that_has_ended_keeps_its_end() -> None:
    before = core.PodStatus(phase="Failed", container_statuses=(replace(status("app", "3"), restart_count=4),))
    assert final_status(pod(), before) == before
