"""Pods of the API server on a real runtime: run, reported, deleted."""

import os
import time
from pathlib import Path

import pytest

from pykubelet.models.core_v1 import Pod
from pykubelet.testing.agent import container_status, wait_for, waiting_reason
from pykubelet.testing.kubeapi import Json
from pykubelet.testing.ociimage import ImageSpec
from pykubelet.testing.runtime import PrivateRuntime
from tests.cgroup_view import cgroup_of, directory_of
from tests.cluster.cluster_node import NODE, Cluster
from tests.manifests import BUSYBOX, container, pod, sh, stubborn

pytestmark = [pytest.mark.root, pytest.mark.runtime]


@pytest.fixture(scope="module")
def node_config() -> Json:
    return {"clusterDomain": "cluster.test"}


def test_pod_runs_and_its_status_is_reported(cluster: Cluster) -> None:
    made = cluster.run(pod("web"))
    found = cluster.ready("web")
    status = found.status
    assert found.metadata.uid == made["metadata"]["uid"]
    assert status.pod_ip and status.host_ip == cluster.address and status.qos_class == "BestEffort"
    assert {c.type: c.status for c in status.conditions} == {
        "PodScheduled": "True",
        "Initialized": "True",
        "ContainersReady": "True",
        "Ready": "True",
        "PodReadyToStartContainers": "True",
    }
    shown = container_status(found)
    assert shown.state is not None and shown.state.running is not None and shown.ready and shown.restart_count == 0
    cluster.delete("web")
    cluster.agent.wait_gone("web")


def test_a_pod_that_ends_succeeds_and_stays(cluster: Cluster) -> None:
    cluster.run(pod("job", container(command=sh("exit 0")), restartPolicy="Never"))
    found = cluster.until("job", lambda p: p.status.phase == "Succeeded")
    ended = container_status(found).state
    assert ended is not None and ended.terminated is not None and ended.terminated.reason == "Completed"
    cluster.delete("job")


def test_deletion_honours_the_grace_period_and_waits_for_the_containers(cluster: Cluster) -> None:
    """The pod ignores SIGTERM, so it ends after the deletion's grace period, which overrides the pod's own.

    A StatefulSet controller waits for that: it creates the next pod of this name when the object is gone.
    """
    made = cluster.run(pod("deaf", container(command=stubborn()), terminationGracePeriodSeconds=60))
    cluster.ready("deaf")
    cgroup = cgroup_of(cluster.agent, "deaf")
    processes = directory_of(cgroup.layout, "memory") / cgroup.path("memory").lstrip("/") / "cgroup.procs"
    assert _pids(processes)
    deleted = time.monotonic()
    cluster.api.delete_pod("deaf", 3)
    marked = cluster.until("deaf", lambda p: p.metadata.deletion_timestamp is not None)
    assert marked.metadata.deletion_grace_period_seconds == 3

    def ended() -> bool:
        there = cluster.api.find_pod("deaf") is not None
        running = _pids(processes)
        assert there or not running, "the object has gone while its process runs"
        return not running

    wait_for(ended, 20.0, cluster.agent.log_tail)
    cluster.api.wait_gone("deaf", 20.0, cluster.agent.log_tail)
    assert time.monotonic() - deleted > 2.5
    # Only pods without processes and volumes were removed.
    assert not processes.exists()
    assert not list((cluster.agent.root / "pods" / made["metadata"]["uid"]).glob("volumes/*/*"))


def _pids(processes: Path) -> str:
    """The processes of a cgroup; empty if it is gone."""
    try:
        return processes.read_text()
    except OSError:
        return ""


def test_hosts_file_of_a_pod_has_its_names(cluster: Cluster) -> None:
    cluster.run(pod("plain"))
    cluster.run(pod("named", hostname="web-0", subdomain="site"))
    cluster.run(pod("full", hostname="web-1", subdomain="site", setHostnameAsFQDN=True))
    full = ["web-1.site.default.svc.cluster.test", "web-1"]
    expected = {
        "plain": ("plain", ["plain"]),
        "named": ("web-0", ["web-0.site.default.svc.cluster.test", "web-0"]),
        "full": (full[0], full),
    }
    for name, (hostname, names) in expected.items():
        address = cluster.ready(name).status.pod_ip
        assert cluster.agent.exec(name, "hostname").strip() == hostname
        assert [address, *names] in [line.split() for line in cluster.agent.exec(name, "cat /etc/hosts").splitlines()]
    for name in expected:
        cluster.delete(name, 1)


def test_pod_of_another_node_is_ignored(cluster: Cluster) -> None:
    cluster.api.run_pod(pod("elsewhere"), "othernode")
    cluster.run(pod("here"))
    cluster.ready("here")
    assert "elsewhere" not in cluster.agent.pods()
    cluster.api.delete_pod("elsewhere", 0)
    cluster.delete("here")


def test_the_node_is_registered(cluster: Cluster, daemon: PrivateRuntime) -> None:
    node = cluster.api.node(NODE)
    assert node is not None
    labels, status = node["metadata"]["labels"], node["status"]
    assert labels["kubernetes.io/hostname"] == NODE and labels["kubernetes.io/os"] == "linux"
    assert {c["type"]: c["status"] for c in status["conditions"]} == {
        "MemoryPressure": "False",
        "DiskPressure": "False",
        "PIDPressure": "False",
        "Ready": "True",
    }
    assert {a["type"]: a["address"] for a in status["addresses"]} == {"InternalIP": cluster.address, "Hostname": NODE}
    assert set(status["allocatable"]) >= {"cpu", "memory", "pods", "ephemeral-storage"}
    info = status["nodeInfo"]
    assert info["kubeletVersion"].startswith("v1.") and info["containerRuntimeVersion"].startswith(f"{daemon.name}://")
    assert (info["kernelVersion"], info["operatingSystem"]) == (os.uname().release, "linux")
    assert info["bootID"] and info["osImage"] and info["architecture"]
    machine_id = Path("/etc/machine-id")  # it may be missing on machines that were not booted by systemd
    assert info["machineID"] == (machine_id.read_text().strip() if machine_id.exists() else "")
    assert BUSYBOX in {name for image in status["images"] for name in image["names"]}
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    wait_for(lambda: bool(cluster.api.get(leases)["items"]), 30.0, cluster.agent.log_tail)
    (lease,) = cluster.api.get(leases)["items"]
    assert lease["metadata"]["name"] == NODE
    assert lease["spec"]["holderIdentity"] == NODE and lease["spec"]["leaseDurationSeconds"] == 40


def test_events_are_sent_to_the_api_server(cluster: Cluster) -> None:
    failing = container("bad", image="localhost/no/such:1", imagePullPolicy="Never")
    cluster.run(pod("eventful", failing))
    found: dict[str, int] = {}

    def seen() -> bool:
        events = cluster.api.get("/api/v1/namespaces/default/events")["items"]
        mine = [e for e in events if e["involvedObject"]["name"] == "eventful"]
        found.update({e["reason"]: e["count"] for e in mine})
        return found.get("ErrImageNeverPull", 0) >= 2

    wait_for(seen, 60.0, lambda: f"{found}\n{cluster.agent.log_tail()}")
    events = cluster.api.get("/api/v1/namespaces/default/events")["items"]
    (event,) = [e for e in events if e["involvedObject"]["name"] == "eventful" and e["reason"] == "ErrImageNeverPull"]
    assert event["involvedObject"]["fieldPath"] == "spec.containers{bad}" and event["type"] == "Warning"
    assert event["source"] == {"component": "kubelet", "host": NODE}
    reasons = {e["reason"] for e in events if e["involvedObject"]["kind"] == "Node"}
    assert {"Starting", "NodeReady", "NodeHasSufficientMemory", "NodeAllocatableEnforced"} <= reasons
    cluster.delete("eventful")


def test_warnings_of_a_pod_do_not_silence_its_ordinary_events(cluster: Cluster) -> None:
    """Twenty-five events of a kind are sent at once, then one in five minutes."""
    failing = [container(f"bad{n}", image=f"localhost/no/such:{n}", imagePullPolicy="Never") for n in range(26)]
    cluster.run(pod("noisy", *failing, container()))

    def reported(found: Pod) -> bool:
        state = container_status(found, "main").state
        refused = [c for c in failing if waiting_reason(found, c["name"]) == "ErrImageNeverPull"]
        return len(refused) == len(failing) and state is not None and state.running is not None

    cluster.until("noisy", reported)
    cluster.wait_event("noisy", "ErrImageNeverPull")
    cluster.api.delete_pod("noisy")
    cluster.wait_event("noisy", "Killing", "Stopping container main")
    cluster.api.wait_gone("noisy", 30.0, cluster.agent.log_tail)


def test_images_and_order_of_containers_are_reported_as_upstream(cluster: Cluster, daemon: PrivateRuntime) -> None:
    """Monitoring joins series by these names, and tools compare statuses by position."""
    daemon.load(ImageSpec("docker.io/library/parity:latest", files={"parity": b"x"}))
    short = container("zulu", image="parity", imagePullPolicy="IfNotPresent")
    cluster.run(pod("named", short, container("mike"), container("alpha")))
    found = cluster.ready("named")
    shown = [(status.name, status.image) for status in found.status.container_statuses]
    assert shown == [("alpha", BUSYBOX), ("mike", BUSYBOX), ("zulu", "docker.io/library/parity:latest")]
    wanted = f'Container image "{BUSYBOX}" already present on machine and can be accessed by the pod'
    reported = cluster.wait_event("named", "Pulled", BUSYBOX)
    assert (reported["type"], reported["message"]) == ("Normal", wanted)
    cluster.delete("named", 1)


def test_pods_that_do_not_fit_are_rejected(cluster: Cluster) -> None:
    large = container(resources={"requests": {"memory": "100Ti"}})
    busy = container(resources={"requests": {"cpu": "5000"}})
    port = container(ports=[{"containerPort": 80, "hostPort": 18080}])
    cluster.run(pod("first", port))
    cluster.ready("first")
    misfits = {
        "NodeAffinity": pod("affinity", nodeSelector={"no-such": "label"}),
        "OutOfmemory": pod("memory", large),
        "OutOfcpu": pod("cpu", busy),
        "NodePorts": pod("port", port),
    }
    for reason, misfit in misfits.items():
        cluster.run(misfit)
        found = cluster.until(misfit["metadata"]["name"], lambda p: p.status.phase == "Failed")
        assert found.status.reason == reason and found.status.message.startswith("Pod was rejected: ")
        assert not container_status(found).container_id
        cluster.delete(misfit["metadata"]["name"])
    cluster.delete("first", 1)


def test_a_pod_ends_at_its_deadline(cluster: Cluster) -> None:
    cluster.run(pod("late", activeDeadlineSeconds=2))
    found = cluster.until("late", lambda p: p.status.phase == "Failed")
    assert found.status.reason == "DeadlineExceeded"
    reported = cluster.wait_event("late", "DeadlineExceeded")
    assert (reported["type"], reported["message"]) == ("Normal", found.status.message)
    cluster.delete("late")


def test_a_second_deletion_shortens_the_grace_period(cluster: Cluster) -> None:
    cluster.run(pod("patient", container(command=stubborn()), terminationGracePeriodSeconds=300))
    cluster.ready("patient")
    cluster.api.delete_pod("patient")
    cluster.until("patient", lambda p: p.metadata.deletion_grace_period_seconds == 300)
    cluster.api.delete_pod("patient", 1)
    cluster.api.wait_gone("patient", 20.0, cluster.agent.log_tail)
