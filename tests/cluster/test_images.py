"""Images that pods of a cluster need: what is known while one is pulled, and the node's own credentials."""

import json
from pathlib import Path

import pytest

from pykubelet.models.core_v1 import Pod
from pykubelet.testing.agent import container_status, wait_for, waiting_reason
from pykubelet.testing.ociimage import ImageSpec
from pykubelet.testing.registry import Registry
from pykubelet.testing.runtime import PrivateRuntime
from tests.cluster.cluster_node import NODE, Cluster
from tests.manifests import BUSYBOX, Json, container, mount, pod

pytestmark = [pytest.mark.root, pytest.mark.runtime]


@pytest.fixture(scope="module")
def node_config() -> Json:
    return {"registryPullQPS": 1, "registryBurst": 1, "evictionPressureTransitionPeriod": "1s"}


def has_sandbox(found: Pod) -> bool:
    """Whether the pod's network is there (KEP-3085)."""
    return any(c.type == "PodReadyToStartContainers" and c.status == "True" for c in found.status.conditions)


def test_sandbox_of_a_pod_is_reported_while_its_image_is_pulled(cluster: Cluster, tmp_path: Path) -> None:
    with Registry(tmp_path) as registry:
        image = registry.add("large", files={"hello": b"at last"})
        registry.hold()
        cluster.run(pod("puller", container(image=image)))
        pulling = cluster.until("puller", has_sandbox)
        assert pulling.status.phase == "Pending" and waiting_reason(pulling) == "ContainerCreating"
        registry.release()
        cluster.ready("puller")
    cluster.delete("puller")


def test_login_of_the_node_gives_all_pods_access_to_a_registry(cluster: Cluster, tmp_path: Path) -> None:
    logins = cluster.agent.root / "config.json"
    with Registry(tmp_path) as registry:
        registry.password = "robot:hunter2"
        image = registry.add("internal", files={"hello": b"for this node"})
        cluster.run(pod("first", container(image=image)))
        cluster.until("first", lambda p: waiting_reason(p) in ("ErrImagePull", "ImagePullBackOff"))
        login = {"auths": {registry.host: {"username": "robot", "password": "hunter2"}}}
        logins.write_text(json.dumps(login))
        cluster.ready("first", 40.0)
    # The image was pulled with credentials of the node, so that it is for all its pods (KEP-2535).
    cluster.run(pod("second", container(image=image, imagePullPolicy="IfNotPresent")))
    cluster.ready("second")
    logins.unlink()
    for name in ("first", "second"):
        cluster.delete(name)


def test_pulls_beyond_the_limit_of_the_node_fail_and_are_retried(cluster: Cluster, tmp_path: Path) -> None:
    """Six pulls, one in a second: one of them at least is refused, unless creating the pods takes five seconds."""
    names = [f"burst-{number}" for number in range(6)]
    with Registry(tmp_path) as registry:
        for name in names:
            cluster.run(pod(name, container(image=registry.reference(name))))

        def messages() -> list[str]:
            states = [container_status(p).state for p in map(cluster.api.find_pod, names) if p is not None]
            return [state.waiting.message for state in states if state is not None and state.waiting is not None]

        wait_for(lambda: any("pull QPS exceeded" in each for each in messages()), 20.0, lambda: str(messages()))
    for name in names:
        cluster.delete(name, 0)


@pytest.mark.only_on("criserver")
def test_image_that_a_pod_has_mounted_is_not_collected(cluster: Cluster, daemon: PrivateRuntime) -> None:
    """No container runs the image, so that only the pod's volumes tell that it is used; its restart would miss it."""
    mounted, unused = "localhost/pykubelet/mounted:1", "localhost/pykubelet/unused:1"
    daemon.load(ImageSpec(mounted, files={"hello": b"from an image"}))
    daemon.load(ImageSpec(unused, files={"bye": b"x"}))
    volumes = [{"name": "v", "image": {"reference": mounted, "pullPolicy": "Never"}}]
    agent = cluster.agent
    # The API server is too old for such volumes; a static pod needs none, and is not evicted.
    agent.write("mounted.json", pod("mounted", container(volumeMounts=[mount("v", "/v")]), volumes=volumes))
    cluster.ready(f"mounted-{NODE}")
    agent.stop()
    agent.config["evictionHard"] = {"nodefs.available": "99%"}
    try:
        agent.start()
        wait_for(lambda: unused not in agent.cli("image", "ls").stdout, 60.0, agent.log_tail)
        shown = agent.cli("image", "ls").stdout
        assert mounted in shown and BUSYBOX in shown, shown
        assert cluster.api.node_condition(NODE, "DiskPressure")["status"] == "True"
    finally:
        del agent.config["evictionHard"]
        agent.config_file.write_text(agent.config_text())
    (agent.manifests / "mounted.json").unlink()
    cluster.api.wait_gone(f"mounted-{NODE}", 30.0, agent.log_tail)
