"""Images that pods of a cluster need: what is known while one is pulled, and the node's own credentials."""

import json
from pathlib import Path

import pytest

from pykubelet.models.core_v1 import Pod
from pykubelet.testing.agent import waiting_reason
from pykubelet.testing.registry import Registry
from tests.cluster.conftest import Cluster
from tests.manifests import container, pod

pytestmark = [pytest.mark.root, pytest.mark.runtime]


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
