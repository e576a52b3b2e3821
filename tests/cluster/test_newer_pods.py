"""Newer API fields of pods and nodes, and the agent's requests to the API server, with the fake API server."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykubelet.models.core_v1 import Pod
from pykubelet.testing.agent import container_status, is_ready, wait_for, waiting_reason
from pykubelet.testing.fake_api.store import Place
from pykubelet.testing.fake_api.thread import FakeApiThread
from pykubelet.testing.fuse import Behaviour, FuseMount
from pykubelet.testing.runtime import PrivateRuntime
from tests.cluster.cluster_node import NODE, Cluster
from tests.cluster.storage import DRIVER, Storage
from tests.manifests import container, lingering, mount, pod, serving, sh

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.serves]
HAS_FUSE = os.access("/dev/fuse", os.R_OK | os.W_OK)
_LIMITED = {"name": "limited", "persistentVolumeClaim": {"claimName": "limited"}}
_TOKEN_SECONDS = 20
"""Lifetime of tokens, shorter than a real API server permits, so that the renewal can be observed."""


@pytest.fixture(scope="module")
def agent_module() -> str:
    """Waits for seconds until a volume is attached, not for two minutes."""
    return "pykubelet.testing.impatient"


@pytest.fixture(scope="module")
def token(newer: Cluster) -> Iterator[Path]:
    """The file of a token in the volume of a pod that runs during the other tests."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    newer.api.create("/api/v1/namespaces/default/serviceaccounts", account)
    source = {"serviceAccountToken": {"path": "token", "expirationSeconds": _TOKEN_SECONDS}}
    main = container(volumeMounts=[mount("token", "/token")])
    volumes = [{"name": "token", "projected": {"sources": [source]}}]
    made = newer.run(pod("holder", main, volumes=volumes, serviceAccountName="default"))
    newer.ready("holder")
    yield newer.agent.root / "pods" / made["metadata"]["uid"] / "volumes/kubernetes.io~projected/token/token"
    newer.delete("holder", 1)


@pytest.fixture(scope="module")
def first_token(token: Path) -> str:
    """The first token in the file."""
    return token.read_text()


class Background:
    """Operations that take long, and therefore begin before the first test."""

    def __init__(self, cluster: Cluster, home: Path) -> None:
        self.cluster = cluster
        self.limit = home / "limit"
        self.limit.write_text("5")
        self.storage = Storage(cluster, home, DRIVER, "--limit", str(self.limit))
        self.slow = FuseMount(home / "many")

    def begin(self) -> None:
        """Publish a driver and then change its limit; start a pod with a volume that is beyond the limit, and one with
        a volume whose files cannot be changed now."""
        api, drivers = self.cluster.api, "/apis/storage.k8s.io/v1/csidrivers"
        driver = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": DRIVER}}
        api.create(drivers, {**driver, "spec": {"nodeAllocatableUpdatePeriodSeconds": 10}})
        self.storage.until(lambda: self.counts() == [5])
        self.limit.write_text("7")
        self.storage.bind("limited", csi={"driver": DRIVER, "volumeHandle": "vol-8"})
        error = {"message": "rpc error: code = ResourceExhausted desc = limit is 7", "errorCode": 8}
        self.storage.attachment("vol-8", {"attached": False, "attachError": error})
        self.cluster.run(pod("beyond", container(volumeMounts=[mount("limited", "/limited")]), volumes=[_LIMITED]))
        if HAS_FUSE:
            self._own_slowly()

    def _own_slowly(self) -> None:
        self.slow.start(Behaviour.HANG_LISTS)
        here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}
        affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}
        self.storage.bind("many", local={"path": str(self.slow.point)}, nodeAffinity=affinity)
        volumes = [{"name": "many", "persistentVolumeClaim": {"claimName": "many"}}]
        main = container(volumeMounts=[mount("many", "/many")])
        self.cluster.run(pod("owner", main, volumes=volumes, securityContext={"fsGroup": 7}))

    def counts(self) -> list[int]:
        """Limits of the node's drivers, as the scheduler reads them."""
        found = self.cluster.api.find(f"/apis/storage.k8s.io/v1/csinodes/{NODE}") or {}
        return [each["allocatable"]["count"] for each in found.get("spec", {}).get("drivers", ())]

    def end(self) -> None:
        self.slow.stop()
        self.storage.end()


@pytest.fixture(scope="module", autouse=True)
def background(newer: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Background]:
    made = Background(newer, tmp_path_factory.mktemp("background"))
    try:
        made.begin()
        yield made
    finally:
        made.end()


def test_status_is_patched_without_get(newer: Cluster, fake: FakeApiThread, first_token: str) -> None:
    store, begun = fake.api.store, len(fake.api.requests)

    def phases() -> list[str]:
        """Phases of the pods, read without requests to the server, which counts them."""
        found = store.list(Place("/api/v1", "pods"), lambda each: each["metadata"]["name"] == "seen")
        return [each["status"]["phase"] for each in found]

    newer.run(pod("seen"))
    wait_for(lambda: phases() == ["Running"], 30.0, newer.agent.log_tail)
    newer.api.delete_pod("seen", 1)
    wait_for(lambda: not phases(), 30.0, newer.agent.log_tail)
    about = [line.split("?")[0] for line in fake.api.requests[begun:] if "/pods/seen" in line]
    assert "PATCH /api/v1/namespaces/default/pods/seen/status" in about
    assert not [line for line in about if line.startswith("GET")]
    assert first_token.startswith("token-default-")


def test_pod_for_another_os_is_rejected(newer: Cluster) -> None:
    newer.run(pod("glazed", os={"name": "windows"}))
    found = newer.until("glazed", lambda p: p.status.phase == "Failed")
    assert found.status.reason == "PodOSNotSupported" and not container_status(found).container_id
    newer.delete("glazed")
    newer.run(pod("plain", os={"name": "linux"}))
    newer.ready("plain")
    newer.delete("plain", 1)


def test_pod_hostname_override_takes_precedence(newer: Cluster) -> None:
    newer.run(pod("named", hostname="short", subdomain="site", hostnameOverride="any.name.example"))
    address = newer.ready("named").status.pod_ip
    assert newer.agent.exec("named", "hostname").strip() == "any.name.example"
    hosts = [line.split() for line in newer.agent.exec("named", "cat /etc/hosts").splitlines()]
    assert [address, "any.name.example"] in hosts
    newer.delete("named", 1)


def test_pod_with_user_namespace_runs(newer: Cluster) -> None:
    """On a runtime without the feature the pod waits, and an event names the reason."""
    newer.run(pod("apart", hostUsers=False))
    node = newer.api.node(NODE)
    assert node is not None
    handlers = {each.get("name", ""): each.get("features", {}) for each in node["status"].get("runtimeHandlers", ())}
    if handlers.get("", {}).get("userNamespaces"):
        newer.ready("apart")
        zero, first, length = newer.agent.exec("apart", "cat /proc/self/uid_map").split()
        assert (zero, length) == ("0", "65536") and int(first) >= 65536
    else:
        reported = (
            "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name=apart,reason=FailedCreatePodSandBox"
        )
        wait_for(lambda: newer.api.get(reported)["items"], 20.0, newer.agent.log_tail)
    newer.delete("apart", 1)


def test_node_reports_its_features(newer: Cluster, daemon: PrivateRuntime) -> None:
    node = newer.api.node(NODE)
    assert node is not None
    status = node["status"]
    assert "RestartAllContainersOnContainerExits" in status["declaredFeatures"]
    if daemon.name == "pykubelet":
        assert {each.get("name", "") for each in status["runtimeHandlers"]} >= {"", "runc"}
        assert status["features"] == {"supplementalGroupsPolicy": True}


def test_pod_whose_init_container_failed_ends_after_its_sidecar(newer: Cluster) -> None:
    """Its phase is terminal when nothing of it runs any more, so that a Job does not replace it before."""
    sidecar = container("sidecar", lingering(), restartPolicy="Always")
    failing = container("failing", sh("exit 3"))
    spec: dict[str, Any] = {"initContainers": [sidecar, failing], "restartPolicy": "Never"}
    newer.run(pod("outlived", terminationGracePeriodSeconds=120, **spec))
    newer.wait_asked("outlived", "sidecar")
    waiting = newer.until("outlived", lambda p: container_status(p, "failing").state.terminated)  # type: ignore[union-attr]
    assert waiting.status.phase == "Pending"
    newer.agent.exec("outlived", "touch /tmp/end", "sidecar", last=True)
    ended = newer.until("outlived", lambda p: p.status.phase not in ("Pending", "Running"))
    assert ended.status.phase == "Failed"
    last, first = container_status(ended, "sidecar").state, container_status(ended, "failing").state
    assert last is not None and last.terminated is not None
    assert first is not None and first.terminated is not None and first.terminated.exit_code == 3
    newer.delete("outlived")


def test_pod_that_ran_out_of_memory_restarts_at_once_when_its_limit_is_raised(newer: Cluster) -> None:
    """The back-off belongs to the container with its resources: a new limit begins without one."""
    eats = serving("x=$(head -c 40000000 /dev/zero | tr '\\0' a)")
    amounts = {"cpu": "100m", "memory": "24Mi"}
    newer.run(pod("hungry", container(command=eats, resources={"requests": amounts, "limits": amounts})))

    def waits(found: Pod) -> bool:
        status = container_status(found)
        waiting = status.state.waiting if status.state is not None else None
        # From the second restart on, the back-off is 20 s or more.
        return waiting is not None and waiting.reason == "CrashLoopBackOff" and status.restart_count >= 2

    before = container_status(newer.until("hungry", waits, 90.0))
    assert before.last_state is not None and before.last_state.terminated is not None
    assert before.last_state.terminated.reason == "OOMKilled"
    raised = {**amounts, "memory": "128Mi"}
    change = {"spec": {"containers": [{"name": "main", "resources": {"requests": raised, "limits": raised}}]}}
    newer.api.strategic("/api/v1/namespaces/default/pods/hungry/resize", change)
    after = container_status(newer.ready("hungry"))
    assert after.restart_count == before.restart_count + 1
    assert after.state is not None and after.state.running is not None and after.state.running.started_at is not None
    ended = before.last_state.terminated.finished_at
    assert ended is not None and (after.state.running.started_at - ended).total_seconds() < 18
    newer.delete("hungry")


def test_pod_with_resource_claims_does_not_start_without_its_devices(newer: Cluster) -> None:
    """Nothing prepares claims here: the pod would run without the device that it was scheduled for."""
    claims = [{"name": "gpu", "resourceClaimName": "gpu-1"}]
    main = container(resources={"claims": [{"name": "gpu"}]})
    newer.run(pod("claimant", main, resourceClaims=claims))
    reported = newer.wait_event("claimant", "FailedPrepareDynamicResources")
    assert reported["type"] == "Warning" and reported["message"].endswith("Its claims: gpu"), reported
    found = newer.until("claimant", lambda p: waiting_reason(p) == "ContainerCreating")
    assert found.status.phase == "Pending" and not found.status.pod_ip
    newer.delete("claimant")


def test_restart_of_all_containers_waits_for_no_back_off(newer: Cluster) -> None:
    """RestartAllContainersOnContainerExits (beta in 1.36): with back-off, the third restart would come after 30 s."""
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
    script = "n=$(cat /v/n || echo 0); echo $((n + 1)) >/v/n; [ $n -ge 3 ] || exit 42"
    again = container(
        "again", serving(script), volumeMounts=[mount("v", "/v")], restartPolicy="Never", restartPolicyRules=[rule]
    )
    newer.run(pod("renewed", again, container(), volumes=[{"name": "v", "emptyDir": {}}]))
    found = newer.until(
        "renewed", lambda p: is_ready(p) and all(each.restart_count == 3 for each in p.status.container_statuses)
    )
    state = container_status(found, "again").state
    assert state is not None and state.running is not None and state.running.started_at is not None
    assert found.status.start_time is not None
    assert (state.running.started_at - found.status.start_time).total_seconds() < 28
    newer.delete("renewed", 1)


def test_a_token_is_renewed_while_its_pod_runs(newer: Cluster, token: Path, first_token: str) -> None:
    """The agent checks twice a minute."""
    wait_for(lambda: token.read_text() != first_token, 60.0, newer.agent.log_tail)
    assert newer.agent.exec("holder", "cat /token/token") == token.read_text()


def test_limit_of_volumes_follows_its_driver(background: Background) -> None:
    """KEP-4876: attachments made outside of the cluster take places; the driver is asked every ten seconds."""
    background.storage.until(lambda: background.counts() == [7])


def test_pod_whose_volume_is_beyond_the_limit_fails_and_others_run(newer: Cluster, background: Background) -> None:
    """Its controller replaces it, and the scheduler, which knows the limit, places that pod on another node."""
    found = newer.until("beyond", lambda p: p.status.phase == "Failed", 60.0)
    assert found.status.reason == "VolumeAttachmentLimitExceeded"
    assert found.status.message.startswith("Pod was rejected: Node has reached its volume attachment limit, rejecting")
    assert "unattached volumes=[limited]" in found.status.message and "limit is 7" in found.status.message
    assert not container_status(found).container_id
    reported = newer.wait_event("beyond", "VolumeAttachmentLimitExceeded", "limit is 7")
    assert reported["type"] == "Warning"
    background.storage.until(lambda: not background.storage.status("volumesInUse"))
    newer.run(pod("within"))
    newer.ready("within")
    newer.delete("within", 1)
    newer.delete("beyond")


@pytest.mark.skipif(not HAS_FUSE, reason="needs /dev/fuse")
def test_pod_whose_volume_has_many_files_says_what_it_waits_for(newer: Cluster, background: Background) -> None:
    """Half a minute after the change of the files' group has begun; no deadline ends it while files are changed."""
    reported = newer.wait_event("owner", "VolumePermissionChangeInProgress", "Setting volume ownership for ")
    assert reported["type"] == "Warning"
    waiting = newer.api.find_pod("owner")
    assert waiting is not None and waiting_reason(waiting) == "ContainerCreating"
    background.slow.stop()
    newer.ready("owner")
    newer.delete("owner", 1)
