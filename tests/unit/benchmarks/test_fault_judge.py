"""The verdict over a node after a fault: what is lost, runs twice, or was restarted for no cause."""

from collections import Counter
from collections.abc import Mapping

import pytest

from benchmarks.faults.judge import Goal, ObservedNode, Row, Status, WantedPod, compare, doubles, unsettled
from benchmarks.faults.model import Restarts

_RUN = WantedPod(("main",))
_END = WantedPod(("main",), Goal.END, restarts=False)
_NEVER = WantedPod(("main",), restarts=False)


def _row(pod: str, attempt: int = 0, *, running: bool = True) -> Row:
    return Row(pod, "main", f"{pod}-{attempt}", attempt, running)


def _seen(*rows: Row, phases: Mapping[str, str] | None = None, runs: Mapping[str, int] | None = None) -> ObservedNode:
    pods = {row.pod for row in rows}
    phases = phases or dict.fromkeys(pods, "Running")
    begun = {(pod, "main"): count for pod, count in (runs or dict.fromkeys(pods, 1)).items()}
    statuses = {pod: Status(phase, phase == "Running") for pod, phase in phases.items()}
    return ObservedNode(Counter({row.pod: 1 for row in rows if row.running}), Counter(), rows, statuses, begun)


def test_unsettled_node_with_exactly_the_wanted_pods_finds_nothing() -> None:
    seen = _seen(_row("a"), _row("done", running=False), phases={"a": "Running", "done": "Succeeded"})
    assert unsettled({"a": _RUN, "done": _END}, seen, Restarts.NONE) == []


@pytest.mark.parametrize(
    ("seen", "word"),
    [
        (ObservedNode(), "the agent does not have it"),
        (_seen(_row("a", running=False)), "not running"),
        (_seen(_row("a"), phases={"a": "Pending"}), "Pending, not ready"),
        (_seen(_row("a"), runs={"a": 0}), "not running"),
        (_seen(_row("a"), _row("b")), "b: not wanted any more"),
        (
            ObservedNode(
                Counter(a=2), rows=(_row("a"),), statuses={"a": Status("Running", True)}, runs={("a", "main"): 1}
            ),
            "2 ",
        ),
    ],
)
def test_unsettled_node_that_differs_names_the_difference(seen: ObservedNode, word: str) -> None:
    assert any(word in reason for reason in unsettled({"a": _RUN}, seen, Restarts.NONE))


def test_unsettled_sandbox_of_removed_pod_is_found() -> None:
    assert unsettled({}, ObservedNode(stopped=Counter(gone=1)), Restarts.NONE) == ["gone: not wanted any more"]


@pytest.mark.parametrize(
    ("seen", "settled"),
    [
        (ObservedNode(stopped=Counter(gone=1), rows=(_row("gone", running=False),)), True),
        (ObservedNode(Counter(gone=1)), False),
        (ObservedNode(rows=(_row("gone"),)), False),
        (ObservedNode(statuses={"gone": Status("Running", True)}), False),
    ],
)
def test_unsettled_node_that_collects_later_may_keep_what_has_ended(seen: ObservedNode, settled: bool) -> None:
    assert (unsettled({}, seen, Restarts.NONE, collects_later=True) == []) is settled


@pytest.mark.parametrize(("restarts", "settled"), [(Restarts.ALL, True), (Restarts.NONE, False)])
def test_unsettled_pod_that_must_not_restart_may_end_only_by_the_fault(restarts: Restarts, settled: bool) -> None:
    seen = _seen(_row("a", running=False), phases={"a": "Failed"})
    assert (unsettled({"a": _NEVER}, seen, restarts) == []) is settled


def test_unsettled_ended_pod_whose_container_runs_is_found() -> None:
    seen = _seen(_row("done"), phases={"done": "Succeeded"})
    assert unsettled({"done": _END}, seen, Restarts.NONE) == ["done: Succeeded, but main runs"]


def test_doubles_two_running_attempts_are_found() -> None:
    assert doubles(_seen(_row("a"), _row("a", 1))) == ["a/main: 2 containers run"]
    assert doubles(_seen(_row("a", running=False), _row("a", 1))) == []
    assert doubles(ObservedNode(Counter(a=2))) == ["a: 2 ready sandboxes"]


def test_compare_unchanged_pod_is_neither_restarted_nor_duplicated() -> None:
    verdict = compare(_seen(_row("a")), _seen(_row("a")), {"a": _RUN}, Restarts.NONE)
    assert (verdict.duplicated, verdict.restarted) == ([], [])


@pytest.mark.parametrize(
    ("restarts", "pod", "found"),
    [
        (Restarts.NONE, "a", True),
        (Restarts.VICTIM, "a", True),
        (Restarts.VICTIM, "victim-1", False),
        (Restarts.ALL, "a", False),
    ],
)
def test_compare_new_attempt_is_a_restart_unless_the_fault_explains_it(
    restarts: Restarts, pod: str, found: bool
) -> None:
    after = _seen(_row(pod, running=False), _row(pod, 1), runs={pod: 2})
    verdict = compare(_seen(_row(pod)), after, {pod: _RUN}, restarts)
    assert bool(verdict.restarted) is found
    assert verdict.duplicated == []


def test_compare_ended_container_that_runs_again_is_a_restart_even_after_a_reboot() -> None:
    before, after = _seen(_row("d", running=False)), _seen(_row("d", 1, running=False), runs={"d": 2})
    assert compare(before, after, {"d": _END}, Restarts.ALL).restarted


def test_compare_program_that_began_more_often_than_the_agent_knows_is_duplicated() -> None:
    verdict = compare(_seen(_row("a")), _seen(_row("a"), runs={"a": 2}), {"a": _RUN}, Restarts.NONE)
    assert verdict.duplicated == ["a/main: began 1 times, 0 known to the agent"]
    verdict = compare(ObservedNode(), _seen(_row("new"), runs={"new": 2}), {"new": _RUN}, Restarts.NONE)
    assert verdict.duplicated == ["new/main: began 2 times, 1 known to the agent"]


def test_compare_new_pod_whose_first_attempts_failed_is_not_duplicated() -> None:
    after = _seen(_row("new", 1), runs={"new": 2})
    assert compare(ObservedNode(), after, {"new": _RUN}, Restarts.NONE).duplicated == []
