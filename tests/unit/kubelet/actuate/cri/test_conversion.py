"""Conversion of CRI messages."""

import pytest

from pykubelet.kubelet.actuate.cri.plan import conversion
from pykubelet.kubelet.actuate.cri_messages.labels import container_annotations, container_labels, sandbox_labels
from pykubelet.kubelet.types.ids import SandboxID
from pykubelet.kubelet.types.runtime import ContainerResources, ContainerState
from pykubelet.pb import runtime_v1_pb2 as pb
from tests.unit.kubelet.actuate.podruntime.build import UID, pod_of

POD = pod_of()
APP = POD.spec.containers[0]
SECOND = 1_000_000_000


def container(**fields: object) -> pb.ContainerStatus:
    values: dict[str, object] = {
        "id": "c1",
        "metadata": pb.ContainerMetadata(name="app", attempt=3),
        "state": pb.CONTAINER_EXITED,
        "created_at": 10 * SECOND,
        "started_at": 11 * SECOND,
        "finished_at": 12 * SECOND,
        "exit_code": 3,
        "reason": "Error",
        "image": pb.ImageSpec(image="sha256:1", user_specified_image="app:1"),
        "image_ref": "app@sha256:2",
        "image_id": "sha256:1",
        "labels": container_labels(POD, APP),
        "annotations": container_annotations(POD, APP, 3, {}),
        "log_path": "/logs/3.log",
        **fields,
    }
    return pb.ContainerStatus(**values)  # type: ignore[arg-type]  # the fields are what they say


def test_a_container_that_has_ended() -> None:
    status = conversion.container_status(container(), SandboxID("s1"), "bye")
    assert (status.id, status.name, status.state, status.sandbox_id) == ("c1", "app", ContainerState.EXITED, "s1")
    assert (status.created_at, status.started_at, status.finished_at) == (10.0, 11.0, 12.0)
    assert (status.exit_code, status.reason, status.message) == (3, "Error", "bye")
    assert (status.image, status.image_id, status.image_ref) == ("sha256:1", "app@sha256:2", "sha256:1")
    assert (status.restart_count, status.log_path) == (3, "/logs/3.log")
    assert status.resources is None
    assert status.user is None
    assert status.stop_signal == ""


@pytest.mark.parametrize(
    ("state", "started"),
    [(pb.CONTAINER_CREATED, 0.0), (pb.CONTAINER_RUNNING, 11.0), (pb.CONTAINER_UNKNOWN, 11.0)],
)
def test_only_exited_container_has_exit_code(state: int, started: float) -> None:
    status = conversion.container_status(container(state=state), SandboxID("s1"), "bye")
    assert status.started_at == started
    assert (status.finished_at, status.exit_code, status.reason, status.message) == (0.0, 0, "", "")


def test_fields_of_newer_runtimes_are_converted() -> None:
    linux = pb.LinuxContainerResources(cpu_shares=512, cpu_period=100_000, memory_limit_in_bytes=2**20)
    status = conversion.container_status(
        container(
            resources=pb.ContainerResources(linux=linux),
            user=pb.ContainerUser(linux=pb.LinuxContainerUser(uid=1, gid=2, supplemental_groups=[3, 4])),
            stop_signal=pb.Signal.Value("SIGRTMINPLUS1"),
        ),
        SandboxID("s1"),
        "",
    )
    assert status.resources == ContainerResources(512, None, 100_000, 2**20)
    assert status.user == (1, 2, (3, 4))
    assert status.stop_signal == "SIGRTMIN+1"


@pytest.mark.parametrize(
    ("message", "started", "state"),
    [
        ("failed to create shim task: context canceled: unknown", 0, ContainerState.CREATED),
        ("failed to start shim: start failed: : signal: killed: unknown", 0, ContainerState.CREATED),
        ("failed to start shim: exec: not found", 0, ContainerState.EXITED),
        ("exec: no such file", 0, ContainerState.EXITED),
        ("the program said: context canceled", 11 * SECOND, ContainerState.EXITED),
        # The name of a program can be that long; a quadratic search would take minutes.
        pytest.param("failed to start shim " * 50_000, 0, ContainerState.EXITED, id="long"),
    ],
)
def test_interrupted_start_counts_as_created(message: str, started: int, state: ContainerState) -> None:
    """As containerd tells it when the agent that had asked for the start is gone."""
    interrupted = container(message=message, started_at=started, exit_code=128, reason="StartError")
    status = conversion.container_status(interrupted, SandboxID("s1"), message)
    assert status.state is state
    assert (status.exit_code == 0) is (state is ContainerState.CREATED)


def test_a_container_without_annotations() -> None:
    status = conversion.container_status(container(annotations={}, image_id=""), SandboxID("s1"), "")
    assert (status.hash, status.restart_count, status.image_ref) == ("", 0, "app@sha256:2")


def sandbox(*ips: str, **fields: object) -> pb.PodSandboxStatus:
    network = pb.PodSandboxNetworkStatus(ip=ips[0] if ips else "", additional_ips=[pb.PodIP(ip=ip) for ip in ips[1:]])
    values: dict[str, object] = {
        "id": "s1",
        "metadata": pb.PodSandboxMetadata(name="web", namespace="ns", uid=UID, attempt=2),
        "created_at": SECOND,
        "network": network,
        **fields,
    }
    return pb.PodSandboxStatus(**values)  # type: ignore[arg-type]  # the fields are what they say


@pytest.mark.parametrize(
    ("ips", "shown"),
    [
        ((), ()),
        (("10.0.0.1",), ("10.0.0.1",)),
        (("10.0.0.1", "fd00::1"), ("10.0.0.1", "fd00::1")),
        (("nonsense",), ()),
        (("10.0.0.1", "nonsense"), ()),
    ],
)
def test_invalid_address_leaves_the_sandbox_without_addresses(ips: tuple[str, ...], shown: tuple[str, ...]) -> None:
    assert conversion.sandbox_status(sandbox(*ips)).ips == shown


def test_sandbox_status_is_converted_with_namespace_and_handler() -> None:
    options = pb.NamespaceOption(network=pb.NODE)
    linux = pb.LinuxPodSandboxStatus(namespaces=pb.Namespace(options=options))
    status = conversion.sandbox_status(sandbox(state=pb.SANDBOX_NOTREADY, linux=linux, runtime_handler="kata"))
    assert (status.ready, status.attempt, status.created_at) == (False, 2, 1.0)
    assert (status.host_network, status.runtime_handler) == (True, "kata")
    assert not conversion.sandbox_status(sandbox()).host_network


def test_runtime_pods_groups_and_sorts_entries() -> None:
    def row(name: str, second: int, attempt: int = 0) -> pb.Container:
        labels = container_labels(POD, APP)
        meta = pb.ContainerMetadata(name="app", attempt=attempt)
        return pb.Container(id=name, metadata=meta, created_at=second * SECOND, labels=labels, pod_sandbox_id="s1")

    foreign = pb.PodSandbox(id="x", labels={"app": "not ours"})
    boxes = [
        pb.PodSandbox(id="s0", labels=sandbox_labels(POD), created_at=SECOND, state=pb.SANDBOX_NOTREADY),
        pb.PodSandbox(id="s1", labels=sandbox_labels(POD), created_at=2 * SECOND, state=pb.SANDBOX_READY),
        foreign,
    ]
    rows = [row("old", 1), row("same", 5, 1), row("newest", 5, 2), pb.Container(id="y")]
    (pod,) = conversion.runtime_pods(boxes, rows)
    assert (pod.ref.namespace, pod.ref.name, pod.uid) == ("ns", "web", UID)
    assert [(s.id, s.ready) for s in pod.sandboxes] == [("s1", True), ("s0", False)]
    assert [c.id for c in pod.containers] == ["newest", "same", "old"]
    assert pod.is_running


def test_container_without_sandbox_is_listed() -> None:
    (pod,) = conversion.runtime_pods([], [pb.Container(id="c", labels=container_labels(POD, APP))])
    assert pod.sandboxes == ()


@pytest.mark.parametrize(
    ("unmet", "ready", "message"),
    [
        ((), (True, True), ""),
        (("NetworkReady",), (True, False), "NetworkReady=false reason:Why message:no plugin"),
        (("RuntimeReady", "NetworkReady"), (False, False), "RuntimeReady=false reason:Why message:no plugin"),
        (("ContainerdHasNoDeprecationWarnings",), (True, True), ""),
    ],
)
def test_only_a_condition_that_the_node_needs_is_a_fault(
    unmet: tuple[str, ...], ready: tuple[bool, bool], message: str
) -> None:
    names = ("RuntimeReady", "NetworkReady", "ContainerdHasNoDeprecationWarnings")
    conditions = [
        pb.RuntimeCondition(type=name, status=name not in unmet, reason="Why", message="no plugin") for name in names
    ]
    handlers = [pb.RuntimeHandler(name="runc")]
    status = pb.StatusResponse(status=pb.RuntimeStatus(conditions=conditions), runtime_handlers=handlers)
    found = conversion.runtime_conditions(status)
    assert ((found.runtime_ready, found.network_ready), found.message) == (ready, message)
    assert found.responding and found.handlers == {"runc"}
