"""Persistent volumes with a CSI driver in a separate process; the tests bind claims, since no controller runs."""

import json
import shutil
from collections.abc import Iterator

import pytest

from pykubelet.testing.agent import container_status, wait_for, waiting_reason
from pykubelet.testing.envtest import EnvTest
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.kubeapi import Json
from tests.cluster.cluster_node import NODE, Cluster
from tests.cluster.storage import CLAIMS, DRIVER, STORAGE, VOLUMES, Storage
from tests.manifests import container, mount, pod

pytestmark = [pytest.mark.root, pytest.mark.runtime]
_TOPOLOGY = "topology.fake.csi/node"
_UNSUPPORTED: Json = {
    "iscsi": {"targetPortal": "192.0.2.1:3260", "iqn": "iqn.2001-04.test:disk", "lun": 0},
    "fc": {"targetWWNs": ["50060e801049cfd1"], "lun": 0},
    "flexVolume": {"driver": "test/disk"},
}


@pytest.fixture(scope="module")
def node_config(apiserver: EnvTest) -> Json:
    """KubeletConfiguration that lets the API server read volume stats from the node."""
    return {"authentication": {"x509": {"clientCAFile": str(apiserver.home / "ca.crt")}}, "volumeStatsAggPeriod": "1s"}


@pytest.fixture(scope="module")
def storage(cluster: Cluster, isolation: Isolation) -> Iterator[Storage]:
    home = isolation.home / "csi"
    home.mkdir(exist_ok=True)
    made = Storage(cluster, home)
    spec = {
        "attachRequired": True,
        "podInfoOnMount": True,
        "volumeLifecycleModes": ["Persistent", "Ephemeral"],
        "fsGroupPolicy": "File",
    }
    driver = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": DRIVER}, "spec": spec}
    cluster.api.create(f"{STORAGE}/csidrivers", driver)
    made.bind("data", csi={"driver": DRIVER, "volumeHandle": "vol-1", "fsType": "ext4"})
    try:
        yield made
    finally:
        for item in cluster.api.get("/api/v1/pods")["items"]:
            cluster.delete(item["metadata"]["name"], 0)
        made.end()
        shutil.rmtree(home)
        for directory in (f"{STORAGE}/csidrivers", f"{STORAGE}/volumeattachments", CLAIMS, VOLUMES):
            for item in cluster.api.get(directory)["items"]:
                cluster.api.delete(f"{directory}/{item['metadata']['name']}")


def test_the_driver_is_in_the_csi_node(storage: Storage) -> None:
    api = storage.cluster.api
    storage.until(lambda: (api.find(f"{STORAGE}/csinodes/{NODE}") or {}).get("spec", {}).get("drivers"))
    found = api.get(f"{STORAGE}/csinodes/{NODE}")
    assert found["spec"]["drivers"] == [
        {
            "name": DRIVER,
            "nodeID": "node-1",
            "topologyKeys": [_TOPOLOGY],
            "allocatable": {"count": 9},
        }
    ]
    node = api.get(f"/api/v1/nodes/{NODE}")
    assert found["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]
    assert node["metadata"]["labels"][_TOPOLOGY] == "a"
    assert json.loads(node["metadata"]["annotations"]["csi.volume.kubernetes.io/nodeid"]) == {DRIVER: "node-1"}


def test_driver_that_would_move_the_node_to_another_zone_is_not_published(storage: Storage) -> None:
    """The label is the first driver's; the scheduler would place pods by a zone in which the node is not."""
    api, agent = storage.cluster.api, storage.cluster.agent
    storage.until(lambda: api.get(f"/api/v1/nodes/{NODE}")["metadata"]["labels"].get(_TOPOLOGY))
    other = Storage(storage.cluster, storage.home, "other.csi", "--segment", "b")
    try:
        wait_for(lambda: "topology value collision" in agent.log.read_text(), 30.0, agent.log_tail)
        third = Storage(storage.cluster, storage.home, "third.csi")
        try:
            drivers = f"{STORAGE}/csinodes/{NODE}"
            storage.until(lambda: len(api.get(drivers)["spec"]["drivers"]) > 1)
            assert {each["name"] for each in api.get(drivers)["spec"]["drivers"]} == {DRIVER, "third.csi"}
            node = api.get(f"/api/v1/nodes/{NODE}")["metadata"]
            assert node["labels"][_TOPOLOGY] == "a"
            assert set(json.loads(node["annotations"]["csi.volume.kubernetes.io/nodeid"])) == {DRIVER, "third.csi"}
        finally:
            third.end()
        storage.until(lambda: [each["name"] for each in api.get(drivers)["spec"]["drivers"]] == [DRIVER])
    finally:
        other.end()


@pytest.mark.parametrize(
    ("driver", "label"),
    [("wrong.csi", "no label!"), ("wrong.csi", "kubernetes.io/os.csi"), ("wrong..csi", "topology.wrong.csi/node")],
)
def test_driver_that_the_api_server_refuses_keeps_no_other_from_the_cluster(
    storage: Storage, driver: str, label: str
) -> None:
    """Its label is not valid, or one that nodes may not give themselves, or its name is none of a driver."""
    drivers, api = f"{STORAGE}/csinodes/{NODE}", storage.cluster.api
    storage.until(lambda: api.get(drivers)["spec"]["drivers"])
    wrong = Storage(storage.cluster, storage.home, driver, "--label", label)
    try:
        wait_for(lambda: driver in storage.cluster.agent.log.read_text(), 30.0, storage.cluster.agent.log_tail)
        third = Storage(storage.cluster, storage.home, "third.csi")
        try:
            storage.until(lambda: "third.csi" in {each["name"] for each in api.get(drivers)["spec"]["drivers"]})
            assert driver not in {each["name"] for each in api.get(drivers)["spec"]["drivers"]}
            assert label not in api.get(f"/api/v1/nodes/{NODE}")["metadata"]["labels"]
        finally:
            third.end()
    finally:
        wrong.end()
    storage.until(lambda: [each["name"] for each in api.get(drivers)["spec"]["drivers"]] == [DRIVER])


def test_volume_of_another_node_is_not_mounted(storage: Storage) -> None:
    """A pod with ``spec.nodeName`` has not been placed by the scheduler, which knows where its volumes are."""
    term = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["othernode"]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}}
    storage.bind("elsewhere", local={"path": str(storage.home)}, nodeAffinity=affinity)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "elsewhere"}}]
    cluster = storage.cluster
    cluster.run(pod("misplaced", container(volumeMounts=[mount("data", "/data")]), volumes=volumes))
    cluster.wait_event("misplaced", "FailedMount", "no matching NodeSelectorTerms")
    found = cluster.api.find_pod("misplaced")
    assert found is not None and found.status.phase == "Pending"
    cluster.delete("misplaced", 0)


def test_pod_with_a_volume_of_an_unsupported_kind_waits_and_says_why(storage: Storage) -> None:
    cluster = storage.cluster
    storage.bind("remote", iscsi=_UNSUPPORTED["iscsi"])
    texts = {kind.lower(): f"volumes of kind {kind} are not supported by this agent" for kind in _UNSUPPORTED}
    texts["claimed"] = "kind not supported by this agent, only csi, local, nfs and hostPath"
    sources = {kind.lower(): {kind: source} for kind, source in _UNSUPPORTED.items()}
    sources["claimed"] = {"persistentVolumeClaim": {"claimName": "remote"}}
    for name, source in sources.items():
        main = container(volumeMounts=[mount("data", "/data")])
        cluster.run(pod(name, main, volumes=[{"name": "data", **source}]))
    for name, text in texts.items():
        cluster.wait_event(name, "FailedMount", text)
        waits = cluster.until(name, lambda p: waiting_reason(p) == "ContainerCreating")
        assert waits.status.phase == "Pending"
        cluster.delete(name, 0)


def test_a_pod_keeps_its_volumes_over_a_restart_of_the_agent(storage: Storage) -> None:
    cluster = storage.cluster
    local = storage.home / "disk"
    local.mkdir()
    affinity = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}]}
    storage.bind(
        "disk",
        local={"path": str(local)},
        nodeAffinity={"required": {"nodeSelectorTerms": [affinity]}},
        storageClassName="local",
    )
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "disk", "persistentVolumeClaim": {"claimName": "disk", "readOnly": True}},
        {"name": "scratch", "csi": {"driver": DRIVER, "volumeAttributes": {"kind": "scratch"}}},
        {"name": "unused", "persistentVolumeClaim": {"claimName": "nowhere"}},
    ]
    mounts = [mount("data", "/data"), mount("disk", "/disk"), mount("scratch", "/scratch", subPath="part")]
    made = cluster.run(pod("stateful", container(volumeMounts=mounts), volumes=volumes, securityContext={"fsGroup": 7}))
    storage.attach("vol-1")
    before = container_status(cluster.ready("stateful"))
    (local / "hello").write_text("from the node")
    script = "echo kept > /data/file; stat -c %g /data/file; cat /disk/hello; touch /disk/x 2>&1; echo s > /scratch/f"
    reported = cluster.agent.exec("stateful", script)
    assert reported.split("\n")[0] == "7" and "from the node" in reported and "Read-only" in reported
    assert storage.calls("NodeStageVolume")[0]["publish_context"] == {"device": "sdz"}
    inline = next(call for call in storage.calls("NodePublishVolume") if "staging_target_path" not in call)
    assert inline["volume_context"]["csi.storage.k8s.io/pod.name"] == "stateful"
    assert inline["volume_context"]["kind"] == "scratch"

    cluster.agent.kill()
    cluster.agent.start()
    wait_for(lambda: "stateful" in cluster.agent.pods(), 30.0, cluster.agent.log_tail)
    after = container_status(cluster.ready("stateful"))
    assert (after.container_id, after.restart_count) == (before.container_id, 0)
    assert cluster.agent.exec("stateful", "cat /data/file").strip() == "kept"
    assert (storage.home / "data" / "vol-1" / "file").read_text() == "kept\n"

    cluster.delete("stateful")
    storage.until(lambda: storage.calls("NodeUnstageVolume"))
    assert len({call["target_path"] for call in storage.calls("NodeUnpublishVolume")}) == 2
    uid = made["metadata"]["uid"]
    storage.until(lambda: not (cluster.agent.root / "pods" / uid).exists())
    storage.until(lambda: not storage.status("volumesInUse"))
    assert (storage.home / "data" / "vol-1" / "file").read_text() == "kept\n"
    assert (local / "hello").exists()


def test_block_device_and_volume_stats(storage: Storage) -> None:
    cluster = storage.cluster
    storage.bind("block", csi={"driver": DRIVER, "volumeHandle": "vol-2"}, volumeMode="Block")
    storage.bind("onhost", hostPath={"path": str(storage.home)})
    volumes = [
        {"name": "blk", "persistentVolumeClaim": {"claimName": "block"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "onhost", "persistentVolumeClaim": {"claimName": "onhost"}},
    ]
    device = {"name": "blk", "devicePath": "/dev/blk"}
    main = container(volumeMounts=[mount("data", "/data"), mount("onhost", "/onhost")], volumeDevices=[device])
    made = cluster.run(pod("raw", main, volumes=volumes))
    storage.attach("vol-1", "vol-2")
    cluster.ready("raw")
    # The driver uses /dev/null as the device.
    assert cluster.agent.exec("raw", "echo gone > /dev/blk && stat -c %t:%T /dev/blk").strip() == "1:3"
    link = cluster.agent.root / "pods" / made["metadata"]["uid"] / "volumeDevices/kubernetes.io~csi/pv-block"
    assert link.is_symlink()

    def claimed() -> list[Json]:
        found = cluster.api.get(f"/api/v1/nodes/{NODE}/proxy/stats/summary")
        return [volume for each in found["pods"] for volume in each.get("volume", ()) if volume.get("pvcRef")]

    storage.until(lambda: len(claimed()) >= 2)
    device_usage, usage, *others = sorted(claimed(), key=lambda volume: str(volume["name"]))
    assert not others, "the disk of the node is not the claim's, whose alerts it would raise"
    assert usage["pvcRef"] == {"name": "data", "namespace": "default"}
    assert (usage["name"], usage["capacityBytes"], usage["usedBytes"], usage["inodes"]) == ("data", 1000, 300, 10)
    assert (device_usage["name"], device_usage["capacityBytes"]) == ("blk", 1000)
    figures = cluster.api.text(f"/api/v1/nodes/{NODE}/proxy/metrics")
    assert 'persistentvolumeclaim="onhost"' not in figures
    for wanted in (
        'kubelet_volume_stats_capacity_bytes{namespace="default",persistentvolumeclaim="data"} 1000',
        'kubelet_volume_stats_used_bytes{namespace="default",persistentvolumeclaim="data"} 300',
        f'csi_operations_seconds_count{{driver_name="{DRIVER}",grpc_status_code="OK",'
        'method_name="/csi.v1.Node/NodePublishVolume",migrated="false"}',
    ):
        assert wanted in figures, "\n".join(line for line in figures.splitlines() if "csi" in line or "volume" in line)
    cluster.delete("raw")
    storage.until(lambda: any(call["volume_id"] == "vol-2" for call in storage.calls("NodeUnstageVolume")))
    assert not link.is_symlink()


def test_pod_deleted_while_agent_is_down_leaves_no_volumes(storage: Storage) -> None:
    cluster = storage.cluster
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    made = cluster.run(pod("short", container(volumeMounts=[mount("data", "/data")]), volumes=volumes))
    storage.attach("vol-1")
    cluster.ready("short")
    cluster.agent.kill()
    unpublished, unstaged = len(storage.calls("NodeUnpublishVolume")), len(storage.calls("NodeUnstageVolume"))
    cluster.api.delete_pod("short", 0)
    cluster.agent.start()
    storage.until(lambda: len(storage.calls("NodeUnstageVolume")) > unstaged)
    assert len(storage.calls("NodeUnpublishVolume")) > unpublished
    storage.until(lambda: not (cluster.agent.root / "pods" / made["metadata"]["uid"]).exists())
    staged = cluster.agent.root / "plugins/kubernetes.io/csi" / DRIVER
    storage.until(lambda: not list(staged.iterdir()))


def test_read_only_inline_volume_cannot_be_written_whatever_its_driver_does(storage: Storage) -> None:
    cluster = storage.cluster
    careless = Storage(cluster, storage.home, "careless.csi", "--ignore-read-only")
    try:
        spec = {"attachRequired": False, "volumeLifecycleModes": ["Ephemeral"]}
        driver = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "careless.csi"}}
        cluster.api.create(f"{STORAGE}/csidrivers", {**driver, "spec": spec})
        volumes = [
            {"name": "fixed", "csi": {"driver": "careless.csi", "readOnly": True}},
            {"name": "free", "csi": {"driver": "careless.csi"}},
        ]
        mounts = [mount("fixed", "/fixed"), mount("free", "/free")]
        cluster.run(pod("inline", container(volumeMounts=mounts), volumes=volumes))
        cluster.ready("inline")
        assert {call.get("readonly", False) for call in careless.calls("NodePublishVolume")} == {True, False}
        reported = cluster.agent.exec(
            "inline", "echo x > /free/x && echo written; echo x 2>&1 > /fixed/x || echo refused"
        )
        assert reported.splitlines()[0] == "written" and reported.splitlines()[-1] == "refused", reported
        cluster.delete("inline")
    finally:
        careless.end()


def test_claim_that_comes_late_is_found_while_another_volume_waits_for_its_attachment(storage: Storage) -> None:
    """A controller may attach volumes slowly, or all of a pod at once; this must not hold up the other claims."""
    cluster = storage.cluster
    storage.bind("early", csi={"driver": DRIVER, "volumeHandle": "vol-5", "fsType": "ext4"})
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("early", "late")]
    mounts = [mount(name, f"/{name}") for name in ("early", "late")]
    cluster.run(pod("waiting", container(volumeMounts=mounts), volumes=volumes))
    storage.until(lambda: f"kubernetes.io/csi/{DRIVER}^vol-5" in storage.status("volumesInUse"))
    storage.bind("late", csi={"driver": DRIVER, "volumeHandle": "vol-6", "fsType": "ext4"})
    storage.attach("vol-5", "vol-6")
    cluster.ready("waiting")
    cluster.delete("waiting")


def test_volumes_grow_for_a_controller_that_sets_no_statuses(storage: Storage) -> None:
    """The API server and its controllers before 1.23 know no ``allocatedResourceStatuses``: sizes tell the node."""
    cluster, sizes = storage.cluster, {"storage": "3Mi"}
    for name, handle in (("older", "vol-3"), ("fixed", "vol-4")):
        storage.bind(name, "3Mi", csi={"driver": DRIVER, "volumeHandle": handle, "fsType": "ext4"})
        cluster.api.merge(f"{CLAIMS}/{name}/status", {"status": {"capacity": {"storage": "1Mi"}}})
    volumes = [
        {"name": "older", "persistentVolumeClaim": {"claimName": "older"}},
        {"name": "fixed", "persistentVolumeClaim": {"claimName": "fixed", "readOnly": True}},
    ]
    mounts = [mount("older", "/older"), mount("fixed", "/fixed")]
    cluster.run(pod("growing", container(volumeMounts=mounts), volumes=volumes))
    storage.attach("vol-3", "vol-4")
    cluster.ready("growing")
    storage.until(lambda: cluster.api.get(f"{CLAIMS}/older")["status"]["capacity"] == sizes)
    cluster.wait_event("growing", "FileSystemResizeSuccessful", "pv-older")
    # A file system that is mounted read-only stays as it is.
    failed = cluster.wait_event("growing", "FileSystemResizeFailed", "requested read-only file system")
    assert failed["type"] == "Warning" and "pv-fixed" in failed["message"]
    (call,) = storage.calls("NodeExpandVolume")
    assert (call["volume_id"], call["capacity_range"]) == ("vol-3", {"required_bytes": str(3 << 20)})
    assert cluster.api.get(f"{CLAIMS}/fixed")["status"]["capacity"] == {"storage": "1Mi"}
    cluster.delete("growing")
