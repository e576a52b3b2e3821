"""Labels and annotations: contents as in the Go kubelet, and parsing of any values."""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.kubelet.actuate.cri_messages import labels
from pykubelet.kubelet.types.ids import PodRef, PodUID
from pykubelet.models.core_v1 import Container, ContainerPort, ExecAction, Lifecycle, LifecycleHandler
from tests.unit.kubelet.actuate.cri_messages.build import make_container, make_pod

REF = PodRef("shop", "web", PodUID("u-1"))


@pytest.mark.parametrize(
    ("name", "image", "expected"),
    [
        ("test_container", "foo/image:v1", "8e45cbd0"),  # the figure that the reference promises to keep
        ("a", "b<c>&d", "352f96d6"),
    ],
)
def test_hash_is_that_of_the_go_kubelet(name: str, image: str, expected: str) -> None:
    assert labels.container_hash(Container(name=name, image=image)) == expected


def test_hash_counts_name_and_image_only() -> None:
    plain = make_container()
    assert labels.container_hash(make_container(command=["x"], env=[{"name": "A"}])) == labels.container_hash(plain)
    assert labels.container_hash(make_container(image="other")) != labels.container_hash(plain)
    assert labels.container_hash(make_container(name="other")) != labels.container_hash(plain)


def test_hash_of_a_long_image_name_is_quick_and_does_not_keep_the_name() -> None:
    labels._name_and_image_hash.cache_clear()
    tracemalloc.start()
    try:
        hashes = {labels.container_hash(Container(name="a", image=f"{n}" + "x" * 1_000_000)) for n in range(20)}
        assert tracemalloc.get_traced_memory()[0] < 1 << 20
    finally:
        tracemalloc.stop()
    assert len(hashes) == 20


def test_sandbox_labels_are_the_pods_and_the_identity() -> None:
    pod = make_pod(labels={"app": "x", labels.POD_NAME: "forged"}, annotations={"note": "y"})
    written = labels.sandbox_labels(pod)
    assert written == {
        "app": "x",
        "io.kubernetes.pod.name": "web",
        "io.kubernetes.pod.namespace": "shop",
        "io.kubernetes.pod.uid": "u-1",
    }
    assert labels.sandbox_annotations(pod) == {"note": "y"}
    assert labels.parse_pod_ref(written) == REF


def test_container_annotations_in_full() -> None:
    pod = make_pod({"terminationGracePeriodSeconds": 45}, deletionGracePeriodSeconds=7)
    container = make_container(
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
        lifecycle={"preStop": {"exec": {"command": ["sync"]}}},
        ports=[{"name": "http", "containerPort": 80, "protocol": "TCP"}],
    )
    written = labels.container_annotations(pod, container, 3, {"plugin": "p", labels.CONTAINER_HASH: "forged"})
    assert written == {
        "plugin": "p",
        "io.kubernetes.container.hash": labels.container_hash(container),
        "io.kubernetes.container.restartCount": "3",
        "io.kubernetes.container.terminationMessagePath": "/dev/termination-log",
        "io.kubernetes.container.terminationMessagePolicy": "File",
        "io.kubernetes.pod.deletionGracePeriod": "7",
        "io.kubernetes.pod.terminationGracePeriod": "45",
        "io.kubernetes.container.preStopHandler": '{"exec":{"command":["sync"]}}',
        "io.kubernetes.container.ports": '[{"containerPort":80,"name":"http","protocol":"TCP"}]',
    }
    assert labels.parse_container(labels.container_labels(pod, container), written) == labels.ParsedContainerLabels(
        REF,
        "app",
        hash=labels.container_hash(container),
        restart_count=3,
        deletion_grace_period=7,
        termination_grace_period=45,
        termination_message_path="/dev/termination-log",
        termination_message_policy="File",
        pre_stop=LifecycleHandler(exec=ExecAction(command=("sync",))),
        ports=(ContainerPort(container_port=80, name="http", protocol="TCP"),),
    )


def test_annotations_of_unset_fields_are_not_written() -> None:
    written = labels.container_annotations(make_pod(), Container(name="a", lifecycle=Lifecycle()), 0, {})
    assert set(written) == {
        labels.CONTAINER_HASH,
        labels.RESTART_COUNT,
        labels.TERMINATION_MESSAGE_PATH,
        labels.TERMINATION_MESSAGE_POLICY,
    }
    parsed = labels.parse_container(labels.container_labels(make_pod(), Container(name="a")), written)
    assert parsed is not None
    assert (parsed.deletion_grace_period, parsed.termination_grace_period, parsed.pre_stop) == (None, None, None)


def test_container_without_labels_has_no_pod() -> None:
    assert labels.parse_pod_ref({}) is None
    assert labels.parse_pod_ref({"app": "x"}) is None
    assert labels.parse_container({labels.CONTAINER_NAME: "x"}, {}) is None


ANNOTATIONS = st.dictionaries(
    st.sampled_from(
        [
            labels.CONTAINER_HASH,
            labels.RESTART_COUNT,
            labels.DELETION_GRACE_PERIOD,
            labels.TERMINATION_GRACE_PERIOD,
            labels.PRE_STOP_HANDLER,
            labels.CONTAINER_PORTS,
        ]
    ),
    st.one_of(
        st.text('0-1{}[]"a:,\x00'), st.sampled_from(["-1", "9" * 5000, "{", '{"exec":3}', "[null]", "null", "[[[["])
    ),
)


@settings(deadline=None)
@given(ANNOTATIONS)
def test_garbled_annotations_never_make_a_container_unreadable(annotations: dict[str, str]) -> None:
    parsed = labels.parse_container(labels.container_labels(make_pod(), make_container()), annotations)
    assert parsed is not None
    assert parsed.ref == REF
