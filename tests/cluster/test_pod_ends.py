"""What controllers see of pods that are being stopped: when a pod is replaced, and who gets traffic, depends on it."""

import pytest

from pykubelet.models.core_v1 import Pod
from pykubelet.testing.agent import container_status, is_ready, wait_for
from tests.cluster.conftest import NODE, Cluster
from tests.manifests import container, exec_handler, pod, serving

pytestmark = [pytest.mark.root, pytest.mark.runtime]

LINGERING = ["sh", "-c", "trap 'touch /tmp/asked' TERM\nwhile [ ! -e /tmp/end ]; do sleep 0.2; done"]
"""A command that notes that it was asked to stop, and ends when told to."""


def wait_asked(cluster: Cluster, name: str) -> None:
    """Wait until the pod's container has been asked to stop."""
    asked = ("exec", name, "--", "test", "-e", "/tmp/asked")
    wait_for(lambda: cluster.agent.cli(*asked).returncode == 0, 30.0, cluster.agent.log_tail)


def disrupted(found: Pod) -> bool:
    return any(condition.type == "DisruptionTarget" for condition in found.status.conditions)


def test_deleted_pod_serves_until_its_probe_fails_or_it_ends(cluster: Cluster) -> None:
    """The endpoint of a terminating pod is ``serving`` while the pod's condition Ready is true (KEP-1672)."""
    probe = {**exec_handler("test ! -e /tmp/unready"), "periodSeconds": 1, "failureThreshold": 1}
    main = container(command=LINGERING, readinessProbe=probe)
    cluster.run(pod("serving", main, terminationGracePeriodSeconds=120))
    cluster.ready("serving")
    cluster.api.delete_pod("serving")
    wait_asked(cluster, "serving")
    stopping = cluster.until("serving", lambda p: p.metadata.deletion_timestamp is not None)
    assert is_ready(stopping) and container_status(stopping).ready
    cluster.agent.exec("serving", "touch /tmp/unready")
    cluster.until("serving", lambda p: not is_ready(p) and p.status.phase == "Running")
    cluster.agent.exec("serving", "touch /tmp/end")
    cluster.api.wait_gone("serving", 30.0, cluster.agent.log_tail)


def test_pod_over_its_deadline_fails_when_its_container_has_ended(cluster: Cluster) -> None:
    """A Job replaces a pod as soon as its phase is terminal."""
    main = container(command=LINGERING)
    cluster.run(pod("late", main, activeDeadlineSeconds=1, terminationGracePeriodSeconds=120))
    wait_asked(cluster, "late")
    running = cluster.api.find_pod("late")
    assert running is not None and (running.status.phase, running.status.reason) == ("Running", "")
    cluster.agent.exec("late", "touch /tmp/end")
    failed = cluster.until("late", lambda p: p.status.phase not in ("Pending", "Running"))
    state = container_status(failed).state
    assert (failed.status.phase, failed.status.reason) == ("Failed", "DeadlineExceeded") and not disrupted(failed)
    assert state is not None and state.terminated is not None
    cluster.delete("late")


def test_preempted_pod_ends_as_its_container_does(cluster: Cluster) -> None:
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
    for name in ("critical", "clean", "unclean"):
        cluster.delete(name, 1)
