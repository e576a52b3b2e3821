"""``pykubelet explain`` on a real node: why a pod does not run, or is not ready."""

import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pykubelet.testing.agent import AgentProcess, cli_command, environment, wait_for, waiting_reason
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.terminal import Terminal
from tests.manifests import Apply, config_map, container, exec_handler, pod, sh

pytestmark = [pytest.mark.root, pytest.mark.runtime]


def explained(agent: AgentProcess, name: str) -> Any:
    done = agent.cli("explain", name, "-o", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def text(agent: AgentProcess, *arguments: str) -> str:
    done = agent.cli("explain", *arguments)
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    return done.stdout


def waits(agent: AgentProcess, name: str, kind: str) -> list[Any]:
    return [wait for wait in explained(agent, name).get("waits", ()) if wait["kind"] == kind]


def wait_waits(agent: AgentProcess, name: str, kind: str) -> Any:
    """Wait until the pod waits for something of that kind; returns it."""
    found: list[Any] = []

    def seen() -> bool:
        found[:] = waits(agent, name, kind)
        return bool(found)

    wait_for(seen, 30, lambda: text(agent, name))
    return found[0]


def decisions(view: Any, topic: str) -> list[tuple[str, str]]:
    return [(each["action"], each["reason"]) for each in view["decisions"] if each["topic"] == topic]


def test_explain_of_a_crash_looping_pod_shows_back_off_and_decisions(agent: AgentProcess, apply: Apply) -> None:
    apply("crashing", pod("crashing", container(command=sh("exit 7"))))
    agent.wait_pod("crashing", lambda pod: waiting_reason(pod) == "CrashLoopBackOff")
    wait = wait_waits(agent, "crashing", "backOff")
    assert (wait["subject"], wait["reason"]) == ("main", "CrashLoopBackOff")
    assert 0 <= wait["secondsLeft"] <= 300
    view = explained(agent, "crashing")
    assert view["admission"]["reason"] == "no rule rejects it"
    assert ("start", "exited with code 7; restart policy Always") in decisions(view, "container")
    assert decisions(view, "sandbox") == [("create", "the pod has no sandbox yet")]
    times = [each["at"] for each in view["decisions"]]
    assert times == sorted(times, reverse=True)
    (started,) = [d for d in view["decisions"] if d["reason"].startswith("exited") and d["action"] == "start"]
    # The pod goes on crashing between the two requests.
    assert 1 <= started.get("count", 1) <= agent.pod("crashing").status.container_statuses[0].restart_count
    line = re.compile(
        r"back-off of main, [0-9.]+ s left: CrashLoopBackOff: back-off \w+ restarting failed container=main"
    )
    wait_for(lambda: line.search(text(agent, "pod/crashing")) is not None, 30, agent.log_tail)


def test_reasons_stay_in_their_column_on_a_terminal(agent: AgentProcess, apply: Apply) -> None:
    apply("narrow", pod("narrow", container(command=sh("exit 7"))))
    agent.wait_pod("narrow", lambda pod: waiting_reason(pod) == "CrashLoopBackOff")
    wait_waits(agent, "narrow", "backOff")
    command = cli_command(agent.socket, "explain", "narrow")
    with Terminal(command, {**environment(), "TERM": "xterm"}, size=(40, 80)) as terminal:
        assert terminal.end() == 0
    lines = terminal.shown.replace("\r", "").splitlines()
    assert [line for line in lines if len(line) > 80] == []
    heading = next(line for line in lines if line.startswith("  ABOUT"))
    first = next(number for number, line in enumerate(lines) if re.match(r"  main +wait +CrashLoopBackOff: ", line))
    assert re.match(rf" {{{heading.index('WHY')}}}\S", lines[first + 1]), terminal.shown


def test_pod_that_waits_for_a_config_map(agent: AgentProcess, apply: Apply) -> None:
    volume = {"name": "conf", "configMap": {"name": "late"}}
    mounted = container(volumeMounts=[{"name": "conf", "mountPath": "/conf"}])
    apply("waiting", pod("waiting", mounted, volumes=[volume]))
    wait = wait_waits(agent, "waiting", "volumes")
    assert wait["reason"] == "FailedMount"
    assert "late" in wait["message"]
    assert "volumes, " in text(agent, "pod", "waiting", "-n", "default")
    apply("late", config_map("late", {"a": "b"}))
    agent.wait_running("waiting")
    wait_for(lambda: not explained(agent, "waiting").get("waits"), 20, lambda: text(agent, "waiting"))
    kept = [{"subject": "main", "action": "keep", "reason": "it runs as specified"}]

    def is_kept() -> bool:  # before, the last sync is the one that has started it
        last = explained(agent, "waiting")["lastSync"]["decisions"]
        return [{key: each[key] for key in ("subject", "action", "reason")} for each in last] == kept

    wait_for(is_kept, 20, lambda: text(agent, "waiting"))
    view = explained(agent, "waiting")
    assert ("retry", "FailedMount") in decisions(view, "volumes")
    assert "Waits for: nothing" in text(agent, "waiting")


def test_failing_readiness_probe_shows_its_last_answer(agent: AgentProcess, apply: Apply) -> None:
    says = exec_handler("echo the cache is cold; exit 1")
    # With time for the command on a busy machine: the answer that is shown is always the command's.
    probe = {**says, "periodSeconds": 1, "failureThreshold": 2, "timeoutSeconds": 20}
    apply("unready", pod("unready", container(readinessProbe=probe)))
    wait_for(
        lambda: any("cold" in wait.get("message", "") for wait in waits(agent, "unready", "probe")),
        30,
        lambda: text(agent, "unready"),
    )
    wait = wait_waits(agent, "unready", "probe")
    assert wait["subject"] == "main"
    assert "readiness probe failed " in wait["reason"]
    assert "(failureThreshold 2)" in wait["reason"]
    assert "the cache is cold" in text(agent, "unready")


def test_rejected_pod_names_the_rule(agent: AgentProcess, apply: Apply) -> None:
    apply("rejected", pod("rejected", nodeSelector={"disk": "gold"}))
    agent.wait_pod("rejected", lambda pod: pod.status.phase == "Failed")
    view = explained(agent, "rejected")
    assert view["admission"]["action"] == "reject"
    assert view["admission"]["reason"] == "rule node selector and affinity: NodeAffinity"
    shown = text(agent, "rejected")
    assert "reject: rule node selector and affinity: NodeAffinity: Predicate NodeAffinity failed" in shown
    assert agent.cli("explain", "nosuch").returncode == 1


def test_watch_follows_a_pod_until_it_runs(agent: AgentProcess, apply: Apply, tmp_path: Path) -> None:
    volume = {"name": "conf", "configMap": {"name": "watched"}}
    mounted = container(volumeMounts=[{"name": "conf", "mountPath": "/conf"}])
    apply("watched", pod("watched", mounted, volumes=[volume]))
    wait_waits(agent, "watched", "volumes")
    out = tmp_path / "out"
    command = cli_command(agent.socket, "explain", "watched", "-w", "-o", "json")
    with out.open("wb") as file, subprocess.Popen(command, stdout=file, env=environment()) as process:
        try:
            wait_for(lambda: b"FailedMount" in out.read_bytes(), 20, agent.log_tail)
            apply("watched-map", config_map("watched", {"a": "b"}))
            wait_for(lambda: b'"keep"' in out.read_bytes(), 20, out.read_text)
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(20 * PATIENCE) == 130
    views = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(views) < 12, "a view is shown when it has changed, not with each second"


def test_get_problems_and_wait_tell_what_a_pod_waits_for(agent: AgentProcess, apply: Apply) -> None:
    missing = {"name": "missing", "configMap": {"name": "nowhere"}}
    unready = container(readinessProbe={"exec": {"command": ["false"]}, "periodSeconds": 1})
    apply("unmounted", pod("unmounted", volumes=[missing]))
    apply("unready", pod("unready", unready))

    def problems() -> dict[str, tuple[str, str]]:
        items = json.loads(agent.cli("get", "problems", "-o", "json").stdout)["items"]
        return {each["subject"]: (each["reason"], each["message"]) for each in items}

    names = {f"pod default/{each}-testnode" for each in ("unmounted", "unready")}
    wait_for(lambda: names <= problems().keys(), 20, lambda: str(problems()))
    reason, message = problems()["pod default/unmounted-testnode"]
    assert reason == "FailedMount" and "configmap 'nowhere' not found" in message
    reason, message = problems()["pod default/unready-testnode"]
    assert (reason, message.partition(" (")[0]) == ("Unhealthy", "container main: readiness probe failed")
    for name, cause in (
        ("unmounted", "phase Pending: FailedMount: .*'nowhere'"),
        ("unready", "not ready: main: .*probe"),
    ):
        # Time enough for the agent's first answer, even on a busy machine.
        late = agent.cli("wait", "--for=ready", name, "--timeout", "3s")
        assert late.returncode == 124
        assert re.search(f"timed out waiting for pod/{name}-testnode: .*{cause}", late.stderr), late.stderr
