"""The phase of a pod: tables over init containers, sidecars, policies and rules."""

import pytest

from pykubelet.kubelet.report.status.plan.phase import pod_phase, started_in_active_sandbox
from pykubelet.kubelet.types.runtime import ContainerState
from pykubelet.models import core_v1 as core
from tests.unit.kubelet.report.pods import attempt, container, exited, pod, runtime, sandbox, sidecar


def status(name: str, word: str) -> core.ContainerStatus:
    """``run``, ``up`` (run and started), ``wait``, ``ok``, ``bad``, ``wait<ok``, ``wait<bad``, ``all`` or ``none``."""
    state, _, last = word.partition("<")
    return core.ContainerStatus(
        name=name,
        ready=False,
        restart_count=0,
        started=state == "up",
        state=_state(state),
        last_state=_state(last) if last else None,
    )


def _state(word: str) -> core.ContainerState | None:
    match word:
        case "run" | "up":
            return core.ContainerState(running=core.ContainerStateRunning())
        case "wait":
            return core.ContainerState(waiting=core.ContainerStateWaiting())
        case "ok" | "bad" | "42":
            code = {"ok": 0, "bad": 1, "42": 42}[word]
            return core.ContainerState(terminated=core.ContainerStateTerminated(exit_code=code))
        case "all":
            end = core.ContainerStateTerminated(exit_code=137, reason="RestartingAllContainers")
            return core.ContainerState(terminated=end)
    return None


def phase(
    words: str,
    *,
    init: str = "",
    restart: str = "Always",
    terminating: bool = False,
    initialized: bool = False,
    static: bool = True,
) -> str:
    """``words`` are the ordinary containers' states; ``init`` the init ones', sidecars as ``s:STATE``.

    A state ``-`` is a container without a status.
    """
    ordinary = [(f"c{i}", w) for i, w in enumerate(words.split())]
    inits = [(f"i{i}", w) for i, w in enumerate(init.split())]
    specs = tuple(sidecar(n) if w.startswith("s:") else container(n) for n, w in inits)
    value = pod(*(container(n) for n, _ in ordinary), init=specs, restart_policy=restart, static=static)
    statuses = [status(n, w.removeprefix("s:")) for n, w in (*inits, *ordinary) if w.removeprefix("s:") != "-"]
    return pod_phase(value, statuses, terminating=terminating, initialized=initialized)


@pytest.mark.parametrize(
    ("words", "always", "on_failure", "never"),
    [
        ("wait", "Pending", "Pending", "Pending"),
        ("-", "Pending", "Pending", "Pending"),
        ("none", "Pending", "Pending", "Pending"),
        ("run", "Running", "Running", "Running"),
        ("run run", "Running", "Running", "Running"),
        ("run wait", "Pending", "Pending", "Pending"),
        ("run -", "Pending", "Pending", "Pending"),
        ("run ok", "Running", "Running", "Running"),
        ("run bad", "Running", "Running", "Running"),
        ("run wait<bad", "Running", "Running", "Running"),
        ("ok -", "Pending", "Pending", "Pending"),
        ("ok", "Running", "Succeeded", "Succeeded"),
        ("ok ok", "Running", "Succeeded", "Succeeded"),
        ("bad", "Running", "Running", "Failed"),
        ("ok bad", "Running", "Running", "Failed"),
        ("bad bad", "Running", "Running", "Failed"),
        ("wait<bad", "Running", "Running", "Failed"),
        ("wait<bad wait<bad", "Running", "Running", "Failed"),
        ("all", "Running", "Running", "Running"),
        ("wait<all", "Running", "Running", "Running"),
        ("ok wait", "Pending", "Pending", "Pending"),
    ],
)
def test_phase_of_a_pod_follows_ordinary_containers_and_policy(
    words: str, always: str, on_failure: str, never: str
) -> None:
    got = [phase(words, restart=policy) for policy in ("Always", "OnFailure", "Never")]
    assert got == [always, on_failure, never]


@pytest.mark.parametrize(
    ("init", "words", "always", "never"),
    [
        ("-", "wait", "Pending", "Pending"),
        ("wait", "wait", "Pending", "Pending"),
        ("run", "wait", "Pending", "Pending"),
        ("none", "wait", "Pending", "Pending"),
        ("ok", "wait", "Pending", "Pending"),
        ("ok", "run", "Running", "Running"),
        ("ok ok", "run", "Running", "Running"),
        ("ok run", "wait", "Pending", "Pending"),
        ("bad", "wait", "Pending", "Failed"),
        ("wait<bad", "wait", "Pending", "Failed"),
        ("wait<ok", "run", "Running", "Running"),
        ("wait<all", "wait", "Pending", "Pending"),
        ("ok bad", "wait", "Pending", "Failed"),
        ("ok", "ok", "Running", "Succeeded"),
        ("ok", "bad", "Running", "Failed"),
        ("run", "run", "Pending", "Pending"),
    ],
)
def test_phase_of_a_pod_is_pending_during_init_containers(init: str, words: str, always: str, never: str) -> None:
    assert [phase(words, init=init, restart=policy) for policy in ("Always", "Never")] == [always, never]


@pytest.mark.parametrize(
    ("init", "words", "restart", "initialized", "expected"),
    [
        ("s:-", "run", "Always", False, "Pending"),
        ("s:wait", "run", "Always", False, "Pending"),
        ("s:run", "run", "Always", False, "Pending"),
        ("s:run", "run", "Always", True, "Running"),
        ("s:up", "run", "Always", False, "Running"),
        ("s:up", "wait", "Always", False, "Pending"),
        ("s:up", "ok", "Never", True, "Running"),
        ("s:up", "bad", "Never", True, "Running"),
        ("s:ok", "ok", "Never", True, "Succeeded"),
        ("s:bad", "ok", "Never", True, "Succeeded"),
        ("s:ok", "bad", "Never", True, "Failed"),
        ("s:wait<bad", "run", "Always", True, "Running"),
        ("s:wait<bad", "run", "Always", False, "Running"),
        ("s:none", "run", "Always", True, "Pending"),
        ("ok s:up ok", "run", "Always", False, "Running"),
        ("ok s:up run", "wait", "Always", False, "Pending"),
        ("ok s:up bad", "wait", "Never", False, "Failed"),
    ],
)
def test_phase_of_a_pod_waits_for_sidecars_before_the_start_only(
    init: str, words: str, restart: str, initialized: bool, expected: str
) -> None:
    assert phase(words, init=init, restart=restart, initialized=initialized) == expected


@pytest.mark.parametrize(
    ("words", "restart", "static", "expected"),
    [
        ("ok", "Always", False, "Succeeded"),
        ("bad", "Always", False, "Failed"),
        ("ok bad", "OnFailure", False, "Failed"),
        ("wait<ok", "Always", False, "Failed"),
        ("run", "Always", False, "Running"),
        ("wait", "Always", False, "Pending"),
        ("ok", "Always", True, "Running"),
        ("bad", "Always", True, "Running"),
        ("bad", "Never", True, "Failed"),
    ],
)
def test_phase_of_a_terminating_pod_follows_exit_codes(words: str, restart: str, static: bool, expected: str) -> None:
    assert phase(words, restart=restart, static=static, terminating=True) == expected


def rules(action: str, operator: str, *values: int) -> tuple[core.ContainerRestartRule, ...]:
    codes = core.ContainerRestartRuleOnExitCodes(operator=operator, values=values)
    return (core.ContainerRestartRule(action=action, exit_codes=codes),)


@pytest.mark.parametrize(
    ("policy", "rule", "word", "pod_policy", "expected"),
    [
        ("Never", rules("Restart", "In", 42), "42", "Never", "Running"),
        ("Never", rules("Restart", "In", 42), "bad", "Never", "Failed"),
        ("Never", rules("Restart", "NotIn", 42), "bad", "Never", "Running"),
        ("Never", rules("Restart", "NotIn", 42), "42", "Never", "Failed"),
        ("Never", rules("RestartAllContainers", "In", 42), "42", "Never", "Running"),
        ("Never", rules("Unheard", "In", 42), "42", "Never", "Failed"),
        ("Never", rules("Restart", "Near", 42), "42", "Never", "Failed"),
        ("", rules("Restart", "In", 42), "42", "Never", "Failed"),
        ("OnFailure", (), "bad", "Never", "Running"),
        ("OnFailure", (), "ok", "Always", "Succeeded"),
        ("Never", (), "bad", "Always", "Failed"),
        ("Always", (), "ok", "Never", "Running"),
        ("Never", rules("Restart", "In", 42), "wait<42", "Never", "Running"),
    ],
)
def test_rules_of_the_container_come_before_the_policies(
    policy: str, rule: tuple[core.ContainerRestartRule, ...], word: str, pod_policy: str, expected: str
) -> None:
    value = pod(container("c0", restart_policy=policy, restart_policy_rules=rule), restart_policy=pod_policy)
    assert pod_phase(value, [status("c0", word)], terminating=False, initialized=True) == expected


def test_a_rule_lets_an_init_container_run_again() -> None:
    init = container("i0", restart_policy="Never", restart_policy_rules=rules("Restart", "In", 42))
    value = pod(container("c0"), init=[init], restart_policy="Never")
    waiting = status("c0", "wait")
    assert pod_phase(value, [status("i0", "42"), waiting], terminating=False, initialized=False) == "Pending"
    assert pod_phase(value, [status("i0", "bad"), waiting], terminating=False, initialized=False) == "Failed"


def test_only_containers_of_the_ready_sandbox_count_as_started() -> None:
    value = pod(init=[container("i0")])
    assert started_in_active_sandbox(value, runtime(attempt()))
    assert started_in_active_sandbox(value, runtime(exited()))
    assert not started_in_active_sandbox(value, runtime(attempt("i0")))
    assert not started_in_active_sandbox(value, runtime(attempt(sandbox="old")))
    assert not started_in_active_sandbox(value, runtime(attempt(), sandboxes=[sandbox(ready=False)]))
    assert started_in_active_sandbox(value, runtime(attempt(state=ContainerState.CREATED)))
