"""A container's message as a whole."""

import pytest

from pykubelet.base.units import Bytes
from pykubelet.kubelet.actuate.actuate_types import HostMount, ImageFacts, Propagation
from pykubelet.kubelet.actuate.cgroups.plan.linux_resources import LinuxResources
from pykubelet.kubelet.actuate.cri_messages.config_types import (
    ConfigError,
    ContainerContext,
    HostDevice,
    IdMapping,
    UserNamespace,
)
from pykubelet.kubelet.actuate.cri_messages.container import container_config, mount_message
from pykubelet.kubelet.actuate.cri_messages.labels import container_hash
from pykubelet.kubelet.types.runtime import ContainerKind
from pykubelet.models.core_v1 import EphemeralContainer
from pykubelet.pb import runtime_v1_pb2 as pb
from tests.unit.kubelet.actuate.cri_messages.build import make_container, make_context, make_pod


def test_container_message_has_all_fields_of_the_manifest() -> None:
    container = make_container(
        command=["/bin/$(WHAT)", "$$(WHAT)"],
        args=["$(WHAT)", "$(MISSING)"],
        workingDir="/srv",
        stdin=True,
        stdinOnce=True,
        tty=True,
        lifecycle={"stopSignal": "SIGRTMIN+3"},
    )
    context = ContainerContext(
        image_ref="sha256:abc",
        image=ImageFacts("sha256:abc", uid=7),
        env={"WHAT": "tool", "RAW": "\udcff"},
        restart_count=4,
        mounts=(HostMount("/data", "/pods/u/data", read_only=True),),
        devices=(HostDevice("/dev/null", "/dev/zero", "rw"),),
        cdi_devices=("vendor/class=dev",),
        annotations={"plugin": "p"},
        resources=LinuxResources(
            cpu_shares=2,
            cpu_quota_us=50_000,
            cpu_period_us=100_000,
            memory_limit=Bytes(1 << 20),
            memory_swap_limit=Bytes(1 << 20),
            oom_score_adj=-997,
            hugepages=(("2MB", Bytes(0)),),
            unified=(("memory.oom.group", "1"),),
        ),
    )
    config = container_config(make_pod(), container, ContainerKind.CONTAINER, context)
    security = config.linux.security_context
    config.linux.ClearField("security_context")
    assert config == pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name="app", attempt=4),
        image=pb.ImageSpec(image="sha256:abc", user_specified_image="example.com/app:1"),
        command=["/bin/tool", "$(WHAT)"],
        args=["tool", "$(MISSING)"],
        working_dir="/srv",
        envs=[pb.KeyValue(key="WHAT", value=b"tool"), pb.KeyValue(key="RAW", value=b"\xff")],
        mounts=[pb.Mount(container_path="/data", host_path="/pods/u/data", readonly=True)],
        devices=[pb.Device(host_path="/dev/null", container_path="/dev/zero", permissions="rw")],
        CDI_devices=[pb.CDIDevice(name="vendor/class=dev")],
        labels={
            "io.kubernetes.pod.name": "web",
            "io.kubernetes.pod.namespace": "shop",
            "io.kubernetes.pod.uid": "u-1",
            "io.kubernetes.container.name": "app",
        },
        annotations={
            "plugin": "p",
            "io.kubernetes.container.hash": container_hash(container),
            "io.kubernetes.container.restartCount": "4",
            "io.kubernetes.container.terminationMessagePath": "",
            "io.kubernetes.container.terminationMessagePolicy": "",
        },
        log_path="app/4.log",
        stdin=True,
        stdin_once=True,
        tty=True,
        linux=pb.LinuxContainerConfig(
            resources=pb.LinuxContainerResources(
                cpu_shares=2,
                cpu_quota=50_000,
                cpu_period=100_000,
                memory_limit_in_bytes=1 << 20,
                memory_swap_limit_in_bytes=1 << 20,
                oom_score_adj=-997,
                hugepage_limits=[pb.HugepageLimit(page_size="2MB", limit=0)],
                unified={"memory.oom.group": "1"},
            )
        ),
        stop_signal=pb.SIGRTMINPLUS3,
    )
    assert security.run_as_user.value == 7


@pytest.mark.parametrize(
    ("mount", "expected"),
    [
        (HostMount("/a", "/h"), pb.Mount(container_path="/a", host_path="/h")),
        (
            HostMount("/a", "/h", propagation=Propagation.BIDIRECTIONAL, selinux_relabel=True),
            pb.Mount(
                container_path="/a",
                host_path="/h",
                propagation=pb.PROPAGATION_BIDIRECTIONAL,
                selinux_relabel=True,
            ),
        ),
        (
            HostMount("/a", "/h", read_only=True, recursive_read_only=True, propagation=Propagation.HOST_TO_CONTAINER),
            pb.Mount(
                container_path="/a",
                host_path="/h",
                readonly=True,
                recursive_read_only=True,
                propagation=pb.PROPAGATION_HOST_TO_CONTAINER,
            ),
        ),
        (
            HostMount("/a", image="sha256:1", user_specified_image="img:1", image_sub_path="d", read_only=True),
            pb.Mount(
                container_path="/a",
                readonly=True,
                image=pb.ImageSpec(image="sha256:1", user_specified_image="img:1"),
                image_sub_path="d",
            ),
        ),
    ],
)
def test_mount_message_has_the_options_of_the_mount(mount: HostMount, expected: pb.Mount) -> None:
    assert mount_message(mount) == expected


def test_mounts_in_a_user_namespace_are_mapped() -> None:
    namespace = UserNamespace((IdMapping(65536, 0, 65536),), (IdMapping(131072, 0, 65536),))
    context = ContainerContext(
        image_ref="i", image=ImageFacts("i"), env={}, mounts=(HostMount("/a", "/h"),), user_namespace=namespace
    )
    config = container_config(make_pod({"hostUsers": False}), make_container(), ContainerKind.CONTAINER, context)
    assert config.mounts[0].uidMappings == [pb.IDMapping(host_id=65536, container_id=0, length=65536)]
    assert config.mounts[0].gidMappings == [pb.IDMapping(host_id=131072, container_id=0, length=65536)]
    plain = container_config(make_pod(), make_container(), ContainerKind.CONTAINER, context)
    assert not plain.mounts[0].uidMappings


def test_only_ephemeral_containers_have_a_target() -> None:
    context = ContainerContext(image_ref="i", image=ImageFacts("i"), env={}, target_id="c1")
    debug = EphemeralContainer(name="debug", target_container_name="app")
    options = container_config(
        make_pod(), debug, ContainerKind.EPHEMERAL, context
    ).linux.security_context.namespace_options
    assert (options.pid, options.target_id) == (pb.TARGET, "c1")
    options = container_config(
        make_pod(), make_container(), ContainerKind.CONTAINER, context
    ).linux.security_context.namespace_options
    assert (options.pid, options.target_id) == (pb.CONTAINER, "")


def test_run_as_non_root_is_checked() -> None:
    container = make_container(securityContext={"runAsNonRoot": True})
    with pytest.raises(ConfigError, match="image will run as root"):
        container_config(make_pod(), container, ContainerKind.CONTAINER, make_context(image=ImageFacts("i")))


@pytest.mark.parametrize(
    ("fields", "env"),
    [
        ({"args": ["$(RAW)"]}, {"RAW": "\udcff"}),
        ({"securityContext": {"runAsUser": 2**63}}, {}),
        ({"workingDir": "\ud800"}, {}),
    ],
)
def test_value_that_does_not_fit_the_message_is_a_config_error(fields: dict[str, object], env: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="container app: "):
        container_config(make_pod(), make_container(**fields), ContainerKind.CONTAINER, make_context(env))


@pytest.mark.parametrize("name", ["command", "args"])
def test_command_whose_variables_make_it_too_long_is_refused(name: str) -> None:
    container = make_container(**{name: ["$(BIG)"] * 7})
    with pytest.raises(ConfigError, match=rf"{name}: the variables in .* make it longer than"):
        container_config(make_pod(), container, ContainerKind.CONTAINER, make_context({"BIG": "x" * 1_000_000}))
