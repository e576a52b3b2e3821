"""Probes of real containers: results of each kind, and their consequences."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.models.core_v1 import Pod
from pykubelet.testing.agent import AgentProcess, container_status, is_ready, nothing_within
from tests.manifests import Apply, Json, container, exec_handler, pod

pytestmark = [pytest.mark.root, pytest.mark.runtime]

_HANDLERS: dict[str, Json] = {
    "exec": exec_handler("[ -e /www/ok ]"),
    "http": {"httpGet": {"path": "/ok", "port": 8080}},
    "tcp": {"tcpSocket": {"port": 8081}},
}


def _probed(healthy: bool, **probes: Json) -> Json:
    """A container with a web server whose health is switched by files: /www/ok for http, /tmp/tcp for the port."""
    script = f"""
    trap 'exit 0' TERM
    mkdir /www; httpd -p 8080 -h /www
    {"touch /www/ok" if healthy else ":"}
    while :; do
      if [ -e /www/ok ]; then httpd -f -p 8081 -h /www & server=$!; fi
      while [ -e /www/ok ]; do sleep 0.1; done
      [ -n "$server" ] && kill $server; server=
      while [ ! -e /www/ok ]; do sleep 0.1; done
    done
    """
    return {**container(command=["sh", "-c", script]), **probes}


_HEALTH_SERVER = """
import grpc, os, sys
from concurrent.futures import ThreadPoolExecutor

class Health(grpc.GenericRpcHandler):
    def service(self, call):
        if call.method == "/grpc.health.v1.Health/Check":
            return grpc.unary_unary_rpc_method_handler(self.check)

    def check(self, request, context):
        # The message is: field 1, the service's name; then the answer: field 1, 1 for SERVING, 2 for NOT_SERVING.
        return b"\\x08\\x01" if request == b"\\n\\x04live" and os.path.exists(sys.argv[1]) else b"\\x08\\x02"

server = grpc.server(ThreadPoolExecutor(2), handlers=[Health()])
print(server.add_insecure_port("0.0.0.0:0"), flush=True)
server.start()
server.wait_for_termination()
"""


@pytest.fixture
def health_server(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """A gRPC health server on the node, for pods in its network: the port, and the file that makes it healthy."""
    flag = tmp_path / "healthy"
    command = [sys.executable, "-c", _HEALTH_SERVER, str(flag)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline()), flag
        finally:
            process.kill()


def test_grpc_readiness_probe_follows_the_health_of_the_service(
    agent: AgentProcess, apply: Apply, health_server: tuple[int, Path]
) -> None:
    port, flag = health_server
    probe = {"grpc": {"port": port, "service": "live"}, "periodSeconds": 1, "failureThreshold": 1}
    apply("grpc", pod("grpc", container(readinessProbe=probe), hostNetwork=True))
    # On a busy machine, a first probe may have found no answer in time.
    event = agent.wait_event("grpc", "Unhealthy", "NOT_SERVING")
    assert "Readiness probe failed" in event.message
    flag.touch()
    agent.wait_running("grpc", timeout=5)
    flag.unlink()
    agent.wait_pod("grpc", lambda p: not is_ready(p), timeout=5)


def _probe(kind: str, **fields: object) -> Json:
    return {**_HANDLERS[kind], "periodSeconds": 1, "failureThreshold": 1, **fields}


def test_readiness_probe_changes_condition_without_restart(agent: AgentProcess, apply: Apply) -> None:
    names = {kind: f"ready-{kind}" for kind in _HANDLERS}
    apply("ready", *(pod(name, _probed(False, readinessProbe=_probe(kind))) for kind, name in names.items()))
    for name in names.values():
        agent.wait_event(name, "Unhealthy", "Readiness probe failed")
        seen = agent.pod(name)
        assert seen.status.phase == "Running"
        assert {c.type: c.status for c in seen.status.conditions}["Ready"] == "False"
        ready = next(c for c in seen.status.conditions if c.type == "ContainersReady")
        assert (ready.reason, ready.message) == ("ContainersNotReady", "containers with unready status: [main]")
    for name in names.values():
        agent.exec(name, "touch /www/ok")
    agent.wait_running(*names.values(), timeout=5)
    for name in names.values():
        agent.exec(name, "rm /www/ok")
    for name in names.values():
        agent.wait_pod(name, lambda p: not is_ready(p), timeout=5)
    assert [container_status(agent.pod(name)).restart_count for name in names.values()] == [0, 0, 0]


def test_failed_liveness_probe_restarts_container(agent: AgentProcess, apply: Apply) -> None:
    names = {kind: f"live-{kind}" for kind in _HANDLERS}
    # The server needs a moment to start, longer on a busy machine.
    patient = {"initialDelaySeconds": 1, "failureThreshold": 3, "timeoutSeconds": 3}
    apply("live", *(pod(name, _probed(True, livenessProbe=_probe(kind, **patient))) for kind, name in names.items()))
    for seen in agent.wait_running(*names.values()):
        assert container_status(seen).restart_count == 0
    nothing_within(
        lambda: any(container_status(agent.pod(name)).restart_count for name in names.values()),
        2,
        lambda: f"a healthy container was restarted:\n{agent.log_tail()}",
    )
    for name in names.values():
        agent.exec(name, "rm /www/ok")
    for name in names.values():
        agent.wait_pod(name, lambda p: container_status(p).restart_count == 1 and is_ready(p), timeout=20)
        agent.wait_event(name, "Unhealthy", "Liveness probe failed")
        agent.wait_event(name, "Killing", "Container main failed liveness probe, will be restarted")


def test_startup_probe_delays_other_probes(agent: AgentProcess, apply: Apply) -> None:
    # The liveness probe would fail at once and kill; it must not run before the startup probe has succeeded.
    probes = {
        "startupProbe": _probe("exec", failureThreshold=30),
        "livenessProbe": _probe("exec", timeoutSeconds=5),
        "readinessProbe": _probe("http"),
    }
    apply("startup", pod("startup", _probed(False, **probes)))
    agent.wait_event("startup", "Unhealthy", "Startup probe failed")

    def state() -> tuple[bool | None, bool, int]:
        early = container_status(agent.pod("startup"))
        return early.started, early.ready, early.restart_count

    nothing_within(lambda: state() != (False, False, 0), 1.5, lambda: f"another probe was heard: {state()}")
    agent.exec("startup", "touch /www/ok")
    late = container_status(agent.wait_running("startup")[0])
    assert (late.started, late.ready, late.restart_count) == (True, True, 0)


def test_startup_probe_that_never_succeeds_restarts_container(agent: AgentProcess, apply: Apply) -> None:
    names = {kind: f"slow-{kind}" for kind in _HANDLERS}
    pods = [pod(name, _probed(False, startupProbe=_probe(kind, failureThreshold=2))) for kind, name in names.items()]
    apply("slow", *pods)
    for name in names.values():
        agent.wait_pod(name, lambda p: container_status(p).restart_count >= 1, timeout=15)
        agent.wait_event(name, "Killing", "Container main failed startup probe, will be restarted")


@pytest.mark.steady_clock  # it compares times of the status
def test_timeouts_and_initial_delay(agent: AgentProcess, apply: Apply) -> None:
    hanging = {**exec_handler("sleep 30"), "periodSeconds": 1, "timeoutSeconds": 1}
    late = _probe("exec", initialDelaySeconds=3)
    apply(
        "times", pod("hanging", _probed(True, readinessProbe=hanging)), pod("late", _probed(True, readinessProbe=late))
    )
    seen = agent.wait_pod("late", is_ready, timeout=10)
    assert _ready_after(seen) >= 3
    agent.wait_event("hanging", "Unhealthy", "Readiness probe failed: command timed out", timeout=10)


def _ready_after(seen: Pod) -> float:
    state = container_status(seen).state
    assert state is not None
    assert state.running is not None
    assert state.running.started_at is not None
    ready = next(c for c in seen.status.conditions if c.type == "Ready")
    assert ready.last_transition_time is not None
    return (ready.last_transition_time - state.running.started_at).total_seconds()


def test_a_probe_may_have_its_own_grace_period(agent: AgentProcess, apply: Apply) -> None:
    # The first run ignores SIGTERM and fails its probe; the second one does neither, so that it stays.
    deaf = "if [ -e /dev/shm/ran ]; then touch /dev/shm/again; trap 'exit 0' TERM"
    deaf += "; else touch /dev/shm/ran; trap '' TERM; fi; while :; do sleep 1 & wait $!; done"
    again = {"exec": {"command": ["test", "-e", "/dev/shm/again"]}}
    patient = {"initialDelaySeconds": 1, "failureThreshold": 2, "timeoutSeconds": 3}
    probe = {**again, "periodSeconds": 1, **patient, "terminationGracePeriodSeconds": 1}
    apply(
        "grace",
        pod("grace", container(command=["sh", "-c", deaf], livenessProbe=probe), terminationGracePeriodSeconds=60),
    )
    restarted = agent.wait_pod("grace", lambda p: container_status(p).restart_count == 1, timeout=15)
    last = container_status(restarted).last_state
    assert last is not None
    assert last.terminated is not None
    assert last.terminated.exit_code == 137


def test_pod_with_unmet_readiness_gate_is_not_ready(agent: AgentProcess, apply: Apply) -> None:
    apply("gates", pod("gates", readinessGates=[{"conditionType": "example.test/gate"}]))
    seen = agent.wait_pod("gates", lambda p: container_status(p).ready)
    ready = next(c for c in seen.status.conditions if c.type == "Ready")
    assert (ready.status, ready.reason) == ("False", "ReadinessGatesNotReady")
