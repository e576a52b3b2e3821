"""Facts that the runtime's lists tell without the desired pods."""

from pykubelet.kubelet.actuate.cri.plan.conversion import newest_sandbox
from pykubelet.kubelet.actuate.cri.plan.runtime_lists import bare_pods, first_mountpoint
from pykubelet.pb import runtime_v1_pb2 as pb


def container(name: str, uid: str) -> pb.Container:
    labels = {f"io.kubernetes.pod.{key}": f"{uid}-{key}" for key in ("name", "namespace")}
    return pb.Container(
        metadata=pb.ContainerMetadata(name=name),
        image=pb.ImageSpec(image=f"{name}:1"),
        labels={**labels, "io.kubernetes.pod.uid": uid} if uid else {},
    )


def test_containers_are_grouped_by_their_pods_and_those_of_others_are_left_out() -> None:
    found = bare_pods([container("b", "2"), container("other", ""), container("a", "1"), container("c", "2")])
    assert [(pod.metadata.uid, pod.metadata.namespace, pod.metadata.name) for pod in found] == [
        ("1", "1-namespace", "1-name"),
        ("2", "2-namespace", "2-name"),
    ]
    assert [[(c.name, c.image) for c in pod.spec.containers] for pod in found] == [
        [("a", "a:1")],
        [("b", "b:1"), ("c", "c:1")],
    ]


def test_first_known_mount_point_is_used_and_none_is_empty() -> None:
    systems = [pb.FilesystemUsage(fs_id=pb.FilesystemIdentifier(mountpoint=path)) for path in ("", "/a", "/b")]
    assert first_mountpoint(systems) == "/a"
    assert first_mountpoint(systems[:1]) == first_mountpoint([]) == ""


def test_newest_sandbox_is_that_of_the_last_attempt_even_if_the_clock_was_set_back() -> None:
    def row(name: str, attempt: int, created: int) -> pb.PodSandbox:
        return pb.PodSandbox(id=name, created_at=created, metadata=pb.PodSandboxMetadata(attempt=attempt))

    assert newest_sandbox([row("old", 1, 900), row("new", 2, 100), row("first", 0, 950)]) == "new"
    assert newest_sandbox([]) is None
