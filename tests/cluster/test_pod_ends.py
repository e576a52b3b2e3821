"""Statuses of pods that are being stopped, as controllers see them: replacements and traffic depend on them."""

import pytest

from pykubelet.models.core_v1 import Pod
from pykubelet.testing.agent import container_status, is_ready, wait_for
from pykubelet.testing.envtest import ADMIN, EnvTest
from tests.cluster.cluster_node import NODE, Cluster
from tests.manifests import container, exec_handler, lingering, mount, pod, serving, sh

pytestmark = [pytest.mark.root, pytest.mark.runtime]
_EVICTIONS = {"evictionMaxPodGracePeriod": 120, "evictionPressureTransitionPeriod": "1s"}


def disrupted(found: Pod) -> bool:
    return any(condition.type == "DisruptionTarget" for condition in found.status.conditions)


def test_deleted_pod_serves_until_its_probe_fails_or_it_ends(cluster: Cluster) -> None:
    """The endpoint of a terminating pod is ``serving`` while the pod's condition Ready is true (KEP-1672)."""
    probe = {**exec_handler("test ! -e /tmp/unready"), "periodSeconds": 1, "failureThreshold": 1}
    main = container(command=lingering(), readinessProbe=probe)
    cluster.run(pod("serving", main, terminationGracePeriodSeconds=120))
    cluster.ready("serving")
    cluster.api.delete_pod("serving")
    cluster.wait_asked("serving")
    stopping = cluster.until("serving", lambda p: p.metadata.deletion_timestamp is not None)
    assert is_ready(stopping) and container_status(stopping).ready
    cluster.agent.exec("serving", "touch /tmp/unready")
    cluster.until("serving", lambda p: not is_ready(p) and p.status.phase == "Running")
    cluster.agent.exec("serving", "touch /tmp/end", last=True)
    cluster.api.wait_gone("serving", 30.0, cluster.agent.log_tail)


def test_pod_over_its_deadline_fails_when_its_container_has_ended(cluster: Cluster) -> None:
    """A Job replaces a pod as soon as its phase is terminal."""
    main = container(command=lingering())
    # The deadline is longer than a start takes on a busy machine: a pod may reach it before its container runs.
    cluster.run(pod("late", main, activeDeadlineSeconds=8, terminationGracePeriodSeconds=120))
    cluster.ready("late")
    cluster.wait_asked("late")
    running = cluster.until("late", lambda p: not is_ready(p))
    assert (running.status.phase, running.status.reason) == ("Running", "")
    cluster.agent.exec("late", "touch /tmp/end", last=True)
    failed = cluster.until("late", lambda p: p.status.phase not in ("Pending", "Running"))
    state = container_status(failed).state
    assert (failed.status.phase, failed.status.reason) == ("Failed", "DeadlineExceeded") and not disrupted(failed)
    assert state is not None and state.terminated is not None
    cluster.delete("late")


def test_hook_goes_on_until_its_container_is_killed(cluster: Cluster) -> None:
    """A preStop command that outlives the grace period is not killed with it but 2 s later, with its container."""
    look = "sleep 0.3; kill -0 $(cat /tmp/hook) && echo -n runs >/dev/termination-log && exit 0; exit 9"
    main = container(
        command=sh(f"trap '{look}' TERM\nwhile :; do sleep 3600 & wait $!; done"),
        lifecycle={"preStop": exec_handler("echo $$ >/tmp/hook; while :; do sleep 600; done")},
    )
    # Time enough for the start, and for the hook to begin, on a busy machine.
    cluster.run(pod("hooked", main, activeDeadlineSeconds=8, terminationGracePeriodSeconds=4))
    state = container_status(cluster.until("hooked", lambda p: p.status.phase == "Failed")).state
    assert state is not None and state.terminated is not None
    assert (state.terminated.exit_code, state.terminated.message) == (0, "runs")
    cluster.delete("hooked", 1)


def test_preempted_pod_ends_as_its_container_does(cluster: Cluster, apiserver: EnvTest) -> None:
    """Upstream's CriticalPod specs: a preempted pod whose container ends with 0 has Succeeded."""
    node = cluster.api.node(NODE)
    assert node is not None
    requests = {"cpu": "10m"}
    cluster.run(pod("clean", container(command=serving(), resources={"requests": requests})))
    cluster.run(pod("unclean", container(command=serving(status=3), resources={"requests": requests})))
    for name in ("clean", "unclean"):
        cluster.ready(name)
    everything = {"cpu": node["status"]["allocatable"]["cpu"]}
    critical = container(resources={"requests": everything})
    cluster.run(pod("critical", critical, priorityClassName="system-node-critical"))
    cluster.ready("critical")
    clean = cluster.until("clean", lambda p: p.status.phase not in ("Pending", "Running"))
    unclean = cluster.until("unclean", lambda p: p.status.phase not in ("Pending", "Running"))
    assert (clean.status.phase, clean.status.reason) == ("Succeeded", "") and disrupted(clean)
    assert (unclean.status.phase, unclean.status.reason) == ("Failed", "Preempting") and disrupted(unclean)
    assert 'kubelet_preemptions{preemption_signal="cpu"} 2.0' in cluster.ask("/metrics", apiserver.tokens[ADMIN])[1]
    for name in ("critical", "clean", "unclean"):
        cluster.delete(name, 1)


def test_pod_that_is_stopped_for_the_node_stays_ready_until_its_container_ends(cluster: Cluster) -> None:
    """As with the Go kubelet: it keeps its traffic while it stops, unless its readiness probe fails."""
    node = cluster.api.node(NODE)
    assert node is not None
    cluster.run(pod("slow", container(command=lingering(), resources={"requests": {"cpu": "10m"}})))
    cluster.ready("slow")
    cluster.run(
        pod(
            "critical",
            container(resources={"requests": {"cpu": node["status"]["allocatable"]["cpu"]}}),
            priorityClassName="system-node-critical",
        )
    )
    cluster.wait_asked("slow")
    cluster.ready("critical")
    stopping = cluster.api.find_pod("slow")
    assert stopping is not None and is_ready(stopping) and container_status(stopping).ready and not disrupted(stopping)
    cluster.agent.exec("slow", "touch /tmp/end", last=True)
    ended = cluster.until("slow", lambda p: p.status.phase not in ("Pending", "Running"))
    assert disrupted(ended) and not is_ready(ended)
    for name in ("critical", "slow"):
        cluster.delete(name, 1)


def test_evicted_pod_runs_and_keeps_its_cpu_until_its_container_has_ended(cluster: Cluster) -> None:
    """A controller replaces a pod as soon as its phase is terminal: the new one must find room, and be the only one."""
    node, signal = cluster.api.node(NODE), "memory.available"
    assert node is not None

    def pressure() -> str:
        return str(cluster.api.node_condition(NODE, "MemoryPressure")["status"])

    everything = {"requests": {"cpu": node["status"]["allocatable"]["cpu"]}}
    main = container(command=lingering(status=3), resources=everything)
    cluster.run(pod("evicted", main, terminationGracePeriodSeconds=120))
    cluster.ready("evicted")
    cluster.agent.reconfigure(evictionSoft={signal: "99%"}, evictionSoftGracePeriod={signal: "1s"}, **_EVICTIONS)
    try:
        cluster.wait_event("evicted", "Evicted")
        cluster.wait_asked("evicted")
        wait_for(lambda: pressure() == "True", 30.0, cluster.agent.log_tail)
    finally:
        cluster.agent.reconfigure(evictionSoft={}, evictionSoftGracePeriod={})
    cluster.run(pod("rival", container(resources=everything)))
    rejected = cluster.until("rival", lambda p: p.status.phase == "Failed")
    assert rejected.status.reason == "OutOfcpu"
    stopping = cluster.api.find_pod("evicted")
    assert stopping is not None and stopping.metadata.deletion_timestamp is None
    assert (stopping.status.phase, stopping.status.reason) == ("Running", "") and not disrupted(stopping)
    cluster.agent.exec("evicted", "touch /tmp/end", last=True)
    failed = cluster.until("evicted", lambda p: p.status.phase not in ("Pending", "Running"))
    assert (failed.status.phase, failed.status.reason) == ("Failed", "Evicted") and disrupted(failed)
    cluster.run(pod("next", container(resources=everything)))
    cluster.ready("next")
    for name in ("evicted", "rival", "next"):
        cluster.delete(name, 1)
    wait_for(lambda: pressure() == "False", 30.0, cluster.agent.log_tail)


def test_pod_evicted_for_its_own_volume_has_no_disruption_target(cluster: Cluster) -> None:
    """With the condition, a Job's podFailurePolicy that ignores disruptions would retry such a pod for ever."""
    write = serving("dd if=/dev/zero of=/v/file bs=1M count=3", status=3)
    volumes = [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}]
    cluster.run(pod("greedy", container(command=write, volumeMounts=[mount("v", "/v")]), volumes=volumes))
    found = cluster.until("greedy", lambda p: p.status.phase not in ("Pending", "Running"), 60.0)
    assert (found.status.phase, found.status.reason) == ("Failed", "Evicted") and not disrupted(found)
    cluster.delete("greedy")
