"""Faults of single pods: an event, the Go kubelet's reason, no effect on other pods, recovery after the repair."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from pykubelet.testing.agent import AgentProcess, container_status, environment, waiting_reason
from pykubelet.testing.isolation import claim
from pykubelet.testing.patience import PATIENCE
from tests.manifests import Apply, container, exec_handler, mount, pod

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.slow]

_RETRY_SECONDS = 20.0


def test_faults_are_reported_and_pods_recover(agent: AgentProcess, apply: Apply, tmp_path: Path) -> None:
    """Several faults at once, and a pod that must not be affected."""
    directory = tmp_path / "directory"
    directory.write_text("a file where a directory is wanted")
    flags = tmp_path / "flags"
    flags.mkdir()
    hook = {"postStart": exec_handler("[ -e /flags/hook ]")}
    start = container(command=["/flags/program"], volumeMounts=[mount("flags", "/flags")])
    apply(
        "faults",
        pod("fine"),
        pod(
            "volume",
            container(volumeMounts=[mount("v", "/v")]),
            volumes=[{"name": "v", "hostPath": {"path": str(directory), "type": "Directory"}}],
        ),
        pod(
            "hook",
            container(lifecycle=hook, volumeMounts=[mount("flags", "/flags")]),
            volumes=[{"name": "flags", "hostPath": {"path": str(flags)}}],
        ),
        pod("program", start, volumes=[{"name": "flags", "hostPath": {"path": str(flags)}}]),
        pod("env", container(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "absent", "key": "k"}}}])),
    )
    fine = agent.wait_running("fine")[0]
    agent.wait_event("volume", "FailedMount", "hostPath type check failed")
    assert waiting_reason(agent.pod("volume")) == "ContainerCreating"
    agent.wait_event("hook", "FailedPostStartHook")
    agent.wait_pod("hook", lambda p: waiting_reason(p) in ("PostStartHookError", "CrashLoopBackOff"))
    agent.wait_event("program", "Failed", "/flags/program")
    agent.wait_pod("program", lambda p: waiting_reason(p) in ("RunContainerError", "CrashLoopBackOff"))
    agent.wait_pod("env", lambda p: waiting_reason(p) == "CreateContainerConfigError")

    directory.unlink()
    directory.mkdir()
    (flags / "hook").touch()
    (flags / "program").write_text("#!/bin/sh\ntrap 'exit 0' TERM\nwhile :; do sleep 3600 & wait $!; done\n")
    (flags / "program").chmod(0o755)
    agent.wait_running("volume", "hook", "program", timeout=_RETRY_SECONDS)
    after = agent.pod("fine")
    assert container_status(after).container_id == container_status(fine).container_id
    assert container_status(after).restart_count == 0


def test_a_pod_that_cannot_stop_delays_no_other(agent: AgentProcess, apply: Apply) -> None:
    deaf = container(command=["sh", "-c", "trap '' TERM; while :; do sleep 1; done"])
    apply("deaf", pod("deaf", deaf, terminationGracePeriodSeconds=int(6 * PATIENCE)))
    apply("quick", pod("quick"))
    agent.wait_running("deaf", "quick")
    apply("deaf")
    start = time.monotonic()
    apply("quick")
    apply("next", pod("next"))
    agent.wait_gone("quick")
    agent.wait_running("next")
    assert time.monotonic() - start < 5 * PATIENCE
    assert "deaf" in agent.pods()
    agent.wait_gone("deaf", timeout=15)


def test_busy_mount_of_removed_pod_is_unmounted(agent: AgentProcess, apply: Apply) -> None:
    """A process on the host has its working directory in a volume of a pod that is removed."""
    volumes = [{"name": "memory", "emptyDir": {"medium": "Memory"}}]
    apply("busy", pod("busy", container(volumeMounts=[mount("memory", "/memory")]), volumes=volumes))
    uid = agent.wait_running("busy")[0].metadata.uid
    directory = agent.root / "pods" / uid / "volumes" / "kubernetes.io~empty-dir" / "memory"
    with subprocess.Popen(["sleep", "2"], cwd=directory):
        apply("busy")
        agent.wait_gone("busy", timeout=30)
    assert not (agent.root / "pods" / uid).exists()


def test_leftovers_of_a_killed_session_are_removed() -> None:
    """The test harness: a killed session leaves its runtime and pods behind; the next session removes them."""
    script = """
import os, signal
from pykubelet.testing.isolation import claim
session = claim()
runtime = session.containerd()
runtime.start()
print(session.home, runtime.pid(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, env=environment())
    home, pid = done.stdout.split()
    assert Path(home).exists()
    assert _runs(pid)
    mine = claim()
    try:
        assert not Path(home).exists()
        assert not _runs(pid)
        assert f"{home}/" not in Path("/proc/self/mountinfo").read_text()
        assert mine.home.exists()
    finally:
        mine.destroy()
    assert not mine.home.exists()
    assert not Path(f"/sys/class/net/{mine.bridge}").exists()


def _runs(pid: str) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False
