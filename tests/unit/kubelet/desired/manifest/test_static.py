"""Static pods: name, uid, node, annotations, tolerations."""

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.desired.manifest import adopt
from pykubelet.kubelet.desired.manifest.static import manifest_name
from pykubelet.kubelet.types.updates import Source, is_static, source_of
from pykubelet.models import core_v1 as core
from pykubelet.models.meta_v1 import ObjectMeta

POD = core.Pod(
    metadata=ObjectMeta(name="web", annotations={"mine": "1"}),
    spec=core.PodSpec(containers=(core.Container(name="c"),)),
)


def test_pod_from_a_file_gets_uid_name_and_annotations() -> None:
    pod = adopt(POD, "digest", Source.FILE, "/m/web.yaml", "Node-1")
    uid = pod.metadata.uid
    assert len(uid) == 32
    assert int(uid, 16)
    assert pod.metadata.name == "web-node-1"
    assert pod.metadata.namespace == "default"
    assert pod.metadata.annotations == {
        "mine": "1",
        "kubernetes.io/config.hash": uid,
        "kubernetes.io/config.source": "file",
    }
    assert pod.spec.node_name == "Node-1"
    assert pod.spec.tolerations == (core.Toleration(operator="Exists", effect="NoExecute"),)
    assert pod.status.phase == "Pending"
    assert is_static(pod)
    assert POD.metadata.annotations == {"mine": "1"}


def test_name_in_the_manifest_is_that_of_the_pod_without_the_node() -> None:
    assert manifest_name("web-node-1", "Node-1") == "web"
    assert manifest_name("web-node-1-node-1", "node-1") == "web-node-1"
    assert manifest_name("web", "node-1") == "web"


def test_a_pod_from_a_url_gets_no_toleration() -> None:
    pod = adopt(POD, "digest", Source.HTTP, "http://x", "n")
    assert pod.spec.tolerations == ()
    assert source_of(pod) is Source.HTTP


def test_the_uid_depends_on_content_place_and_node_only() -> None:
    def uid(digest: str, source: Source, origin: str, node: str) -> str:
        return adopt(POD, digest, source, origin, node).metadata.uid

    base = uid("d", Source.FILE, "/a", "n")
    assert base == uid("d", Source.FILE, "/a", "n")
    others = [uid("e", Source.FILE, "/a", "n"), uid("d", Source.FILE, "/b", "n"), uid("d", Source.FILE, "/a", "m")]
    others.append(uid("d", Source.HTTP, "/a", "n"))
    assert len({base, *others}) == 5
    assert uid("d", Source.HTTP, "/a", "n") == uid("d", Source.HTTP, "/a", "m")


def test_the_uid_never_changes_between_releases() -> None:
    """A container is found again after an upgrade of the agent by its pod's uid."""
    assert adopt(POD, "d", Source.FILE, "/a", "n").metadata.uid == "273cd4a18c580de98c728400b4b14fd3"


def test_a_uid_of_the_manifest_is_kept() -> None:
    own = replace(POD, metadata=replace(POD.metadata, uid="my-uid", namespace="apps"))
    pod = adopt(own, "digest", Source.FILE, "/a", "n")
    assert (pod.metadata.uid, pod.metadata.namespace) == ("my-uid", "apps")
    assert pod.metadata.annotations["kubernetes.io/config.hash"] == "my-uid"


def test_a_toleration_that_is_there_is_not_doubled() -> None:
    toleration = core.Toleration(operator="Exists", effect="NoExecute")
    own = replace(POD, spec=replace(POD.spec, tolerations=(toleration,)))
    assert adopt(own, "d", Source.FILE, "/a", "n").spec.tolerations == (toleration,)


def test_name_too_long_with_the_node_is_invalid() -> None:
    own = replace(POD, metadata=replace(POD.metadata, name="a" * 250))
    with pytest.raises(Invalid, match="longer than 253"):
        adopt(own, "d", Source.FILE, "/a", "node")


def test_name_too_long_for_the_log_directory_is_invalid() -> None:
    longest = 255 - len("default_-node_") - 32
    own = replace(POD, metadata=replace(POD.metadata, name="a" * longest, namespace=""))
    assert adopt(own, "d", Source.FILE, "/a", "node").metadata.name == "a" * longest + "-node"
    own = replace(own, metadata=replace(own.metadata, name="a" * (longest + 3)))
    with pytest.raises(Invalid, match=r"log directory.* shorten metadata\.name by 3"):
        adopt(own, "d", Source.FILE, "/a", "node")
