"""Faults of the runtime (killed, hanging, a lost sandbox): an event, and recovery without intervention."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pykubelet.base.errors import Transient
from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import Event, Pod
from pykubelet.testing.agent import AgentProcess, container_status, is_ready, wait_for
from pykubelet.testing.runtime import PrivateRuntime
from tests.faults.containerdlog import CallLog, end_lost_shims, shims
from tests.manifests import Apply, container, pod, serving

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.slow]

_OUTAGE_SECONDS = 5.0
_RECOVERY_SECONDS = 15.0


@pytest.fixture(autouse=True)
def healed(daemon: PrivateRuntime) -> Iterator[None]:
    """Restart the runtime after each test if necessary."""
    yield
    pid = daemon.pid()
    if pid is not None:
        os.kill(pid, signal.SIGCONT)
    daemon.start()


@pytest.fixture(autouse=True, scope="module")
def without_lost_shims(agent: AgentProcess, daemon: PrivateRuntime) -> Iterator[None]:
    """Kill leaked shims: containerd may lose the shim of a sandbox if it is killed while it starts the sandbox."""
    yield
    agent.remove_all_pods()
    end_lost_shims(daemon)


def _node_events(agent: AgentProcess) -> list[Event]:
    items = agent.api.get("/api/v1/events")["items"]
    events = (from_builtins(item, Event) for item in items)
    return [event for event in events if event.involved_object.kind == "Node"]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP], ids=lambda how: how.name)
def test_pods_are_reconciled_after_runtime_outage(
    agent: AgentProcess, daemon: PrivateRuntime, apply: Apply, how: signal.Signals
) -> None:
    label = how.name.lower()
    kept, short, new = (f"{word}-{label}" for word in ("kept", "short", "new"))
    # If the runtime hangs, the command of a probe times out, which counts as a failure, as in the Go kubelet.
    command = {"exec": {"command": ["true"]}, "periodSeconds": 1, "failureThreshold": 2, "timeoutSeconds": 5}
    probed = container() if how is signal.SIGSTOP else container(livenessProbe=command)
    once = "[ -e /dev/shm/ran ] || { touch /dev/shm/ran; sleep 3; exit 1; }"
    apply("before", pod(kept, probed), pod(short, container(command=serving(once))), pod(f"goes-{label}"))
    before = agent.wait_running(kept, short, f"goes-{label}")
    pid = daemon.pid()
    assert pid is not None
    if how is signal.SIGSTOP:
        os.kill(pid, how)
    else:
        daemon.signal(how)
    start = time.monotonic()
    # During the outage one pod is added, one is removed, and one container exits.
    apply("before", pod(kept, probed), pod(short, container(command=serving(once))))
    apply("during", pod(new))
    wait_for(
        lambda: "container runtime" in _subjects(agent),
        20 if how is signal.SIGSTOP else _OUTAGE_SECONDS,
        lambda: f"the runtime's absence is not told\n{agent.log_tail()}",
    )
    reason = "ContainerRuntimeNotReady"
    wait_for(lambda: reason in {event.reason for event in _node_events(agent)}, 20, agent.log_tail)
    assert kept in agent.pods(), "the agent is not responding while the runtime is away"
    assert not is_ready(agent.wait_pod(new, lambda _: True))
    # The length of the outage is the scenario: calls are refused or hang for this time, whatever has been told of it.
    time.sleep(max(0.0, start + _OUTAGE_SECONDS - time.monotonic()))
    if how is signal.SIGSTOP:
        os.kill(pid, signal.SIGCONT)
    else:
        daemon.start()
    back = time.monotonic()
    agent.wait_running(new, timeout=_RECOVERY_SECONDS)
    agent.wait_pod(short, lambda p: container_status(p).restart_count == 1, timeout=_RECOVERY_SECONDS)
    agent.wait_gone(f"goes-{label}", timeout=_RECOVERY_SECONDS)
    print(f"{how.name}: all done {time.monotonic() - back:.1f} s after the runtime was back")
    after = agent.wait_running(kept)[0]
    assert container_status(after).container_id == container_status(before[0]).container_id
    assert container_status(after).restart_count == 0
    wait_for(lambda: _is_healthy(agent), _RECOVERY_SECONDS, agent.log_tail)
    assert "container runtime" not in _subjects(agent)


def _subjects(agent: AgentProcess) -> list[str]:
    return [problem["subject"] for problem in agent.api.get("/pykubelet/v1/problems")["items"]]


def _tells_of_runtime(agent: AgentProcess) -> bool:
    """Whether the agent, which may just have been started, serves and reports that the runtime is away."""
    with suppress(Transient):
        return "container runtime" in _subjects(agent)
    return False


def _is_healthy(agent: AgentProcess) -> bool:
    try:
        return bool(agent.api.get("/pykubelet/v1/healthz")["healthy"])
    except Transient:
        return False


def test_agent_started_before_its_runtime_waits_for_it(
    agent: AgentProcess, daemon: PrivateRuntime, apply: Apply
) -> None:
    apply("early", pod("early"))
    before = agent.wait_running("early")[0]
    agent.kill()
    daemon.signal(signal.SIGTERM)
    agent.start(wait=False)
    wait_for(lambda: _tells_of_runtime(agent), 30, agent.log_tail)
    apply("late", pod("late"))
    daemon.start()
    agent.wait_ready()
    agent.wait_running("early", "late", timeout=_RECOVERY_SECONDS)
    after = agent.pod("early")
    assert container_status(after).container_id == container_status(before).container_id


def _id(seen: Pod) -> str:
    return container_status(seen).container_id


@pytest.mark.only_on("containerd")
def test_a_sandbox_that_dies_is_replaced(agent: AgentProcess, daemon: PrivateRuntime, apply: Apply) -> None:
    apply("box", pod("box"))
    before = agent.wait_running("box")[0]
    _kill_pause(before.metadata.uid)
    agent.wait_event("box", "SandboxChanged")
    after = agent.wait_pod(
        "box",
        lambda p: (
            container_status(p).ready and container_status(p).container_id != container_status(before).container_id
        ),
        timeout=_RECOVERY_SECONDS,
    )
    assert container_status(after).restart_count == 1
    assert after.status.pod_ip
    assert after.metadata.uid == before.metadata.uid


def _kill_pause(uid: str) -> None:
    """Kill the first process of a pod's sandbox, found by its command line."""
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal():
            try:
                cgroup, command = (directory / "cgroup").read_text(), (directory / "cmdline").read_bytes()
            except OSError:
                continue
            if f"pod{uid}" in cgroup and b"2147483647" in command:
                os.kill(int(directory.name), signal.SIGKILL)
                return
    raise AssertionError(f"no pause process of pod {uid}")


@pytest.mark.only_on("containerd")
def test_pod_with_killed_shim_is_restarted(agent: AgentProcess, daemon: PrivateRuntime, apply: Apply) -> None:
    """The kernel's OOM killer may kill a shim: the pod is restarted, others are not affected."""
    apply("shim", pod("shim"), pod("bystander"))
    before, other = agent.wait_running("shim", "bystander")
    calls, pids = CallLog.of_daemon(daemon), shims(daemon)
    killed = [pids[sandbox] for sandbox, uid in calls.sandboxes.items() if uid == before.metadata.uid]
    assert len(killed) == 1
    os.kill(killed[0], signal.SIGKILL)
    agent.wait_pod(
        "shim",
        lambda p: (
            container_status(p).ready and container_status(p).container_id != container_status(before).container_id
        ),
        timeout=30,
    )
    assert container_status(agent.pod("bystander")).container_id == container_status(other).container_id
