"""Mirror pods of static pods."""

import time
from datetime import UTC, datetime

import pytest

from pykubelet.testing.agent import container_status, is_ready, wait_for
from tests.cluster.cluster_node import NODE, Cluster
from tests.manifests import container, lingering, pod, serving, stubborn

pytestmark = [pytest.mark.root, pytest.mark.runtime]
MIRROR = "kubernetes.io/config.mirror"


def test_a_static_pod_has_a_mirror_with_its_status(cluster: Cluster) -> None:
    cluster.agent.write("s.json", pod("fixed"))
    name = f"fixed-{NODE}"
    mirror = cluster.until(name, is_ready)
    node = cluster.api.node(NODE)
    assert node is not None
    (owner,) = mirror.metadata.owner_references
    assert (owner.kind, owner.name, owner.uid, owner.controller) == ("Node", NODE, node["metadata"]["uid"], True)
    annotations = mirror.metadata.annotations
    assert annotations[MIRROR] == annotations["kubernetes.io/config.hash"]
    assert annotations["kubernetes.io/config.source"] == "file"

    # A deleted mirror pod is re-created; the static pod keeps running.
    started = cluster.agent.pod("fixed").status.start_time
    cluster.api.delete_pod(name)
    cluster.until(name, lambda p: p.metadata.uid != mirror.metadata.uid and is_ready(p))
    assert cluster.agent.pod("fixed").status.start_time == started

    # A new version of the pod has a new mirror pod.
    cluster.agent.write("s.json", pod("fixed", container(command=serving("echo changed"))))
    cluster.until(name, lambda p: p.metadata.annotations[MIRROR] != annotations[MIRROR] and is_ready(p))

    # Without the manifest both are removed.
    (cluster.agent.manifests / "s.json").unlink()
    cluster.api.wait_gone(name, 30.0, cluster.agent.log_tail)
    wait_for(lambda: "fixed" not in cluster.agent.pods(), 30.0, cluster.agent.log_tail)


def test_mirror_of_an_updated_pod_stays_until_its_grace_period_is_over(cluster: Cluster) -> None:
    grace = 6
    cluster.agent.write("s.json", pod("slow", container(command=stubborn()), terminationGracePeriodSeconds=grace))
    name = f"slow-{NODE}"
    before = cluster.until(name, is_ready).metadata
    began = time.monotonic()
    cluster.agent.write("s.json", pod("slow", container(command=serving("echo changed"))))
    after = cluster.until(name, lambda p: p.metadata.uid != before.uid).metadata
    assert time.monotonic() - began >= grace, "the mirror pod went before the old pod had ended"
    assert after.annotations[MIRROR] != before.annotations[MIRROR]
    cluster.ready(name)


@pytest.mark.parametrize("at_once", [False, True], ids=["while-it-stops", "at-once"])
def test_static_pod_removed_and_written_again_starts_when_the_old_one_has_ended(
    cluster: Cluster, at_once: bool
) -> None:
    """Both have the same name and uid; upstream's MirrorPod specs want a restart."""
    manifest = pod("back", container(command=lingering()), terminationGracePeriodSeconds=120)
    path = cluster.agent.write("back.json", manifest)
    name = f"back-{NODE}"
    first = container_status(cluster.until(name, is_ready)).container_id
    path.unlink()
    if not at_once:
        cluster.wait_asked("back")
    cluster.agent.write("back.json", manifest)
    cluster.wait_asked("back")
    released = datetime.now(UTC).replace(microsecond=0)
    cluster.agent.exec("back", "touch /tmp/end", last=True)
    after = container_status(cluster.until(name, lambda p: is_ready(p) and container_status(p).container_id != first))
    now = after.state.running if after.state is not None else None
    assert now is not None and now.started_at is not None and now.started_at >= released
    assert after.restart_count == 1
    path.unlink()
    cluster.wait_asked("back")
    cluster.agent.exec("back", "touch /tmp/end", last=True)
    cluster.api.wait_gone(name, 30.0, cluster.agent.log_tail)


def test_a_mirror_without_its_pod_is_deleted_after_a_restart(cluster: Cluster) -> None:
    cluster.agent.write("gone.json", pod("gone"))
    cluster.ready(f"gone-{NODE}")
    cluster.agent.stop()
    (cluster.agent.manifests / "gone.json").unlink()
    cluster.agent.start()
    cluster.api.wait_gone(f"gone-{NODE}", 30.0, cluster.agent.log_tail)
