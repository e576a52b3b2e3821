"""Optional features: they work, or are refused with UNIMPLEMENTED. On real runtimes only."""

import json
import shutil
import tarfile
from pathlib import Path

import pytest

from pykubelet.base.errors import Unsupported
from pykubelet.kubelet.actuate.cri import CriError
from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.fake_cri import Script
from tests.contract.cri.rig import REAL, STUBBORN, Program, Runtime

pytestmark = [pytest.mark.parametrize("endpoint", REAL, indirect=True)]


async def test_metrics_have_descriptors(runtime: Runtime) -> None:
    container = await runtime.start(STUBBORN)
    try:
        descriptors = {each.name: each for each in await runtime.client.list_metric_descriptors()}
    except Unsupported:
        assert not await runtime.is_ours()
        return
    (pod,) = [
        each for each in await runtime.client.list_pod_sandbox_metrics() if each.pod_sandbox_id in runtime.sandboxes
    ]
    (mine,) = pod.container_metrics
    assert mine.container_id == container
    metrics = [*pod.metrics, *mine.metrics]
    assert {"container_memory_working_set_bytes", "container_network_receive_bytes_total"} <= {m.name for m in metrics}
    for metric in metrics:
        assert len(metric.label_values) == len(descriptors[metric.name].label_keys)


async def test_a_pod_s_new_limits(runtime: Runtime) -> None:
    sandbox = await runtime.sandbox()
    try:
        await runtime.client.update_pod_sandbox_resources(sandbox, None, pb.LinuxContainerResources(cpu_shares=9))
    except Unsupported:
        assert not await runtime.is_ours()


async def test_checkpoint_of_a_running_container_is_complete_or_unsupported(runtime: Runtime, tmp_path: Path) -> None:
    """Unsupported without CRIU, as with Debian 12; with it, the archive is complete and the container runs on."""
    container = await runtime.start(STUBBORN)
    archive = tmp_path / "c.tar"
    if not await runtime.is_ours() or shutil.which("criu") is None:
        with pytest.raises(Unsupported):
            await runtime.client.checkpoint_container(container, str(archive), 10)
    else:
        await runtime.client.checkpoint_container(container, str(archive), 60)
        with tarfile.open(archive) as tar:
            names = set(tar.getnames())
        assert names >= {"config.dump", "spec.dump", "status.dump", "rootfs-diff.tar", "checkpoint/inventory.img"}
    assert (await runtime.status(container)).state == pb.CONTAINER_RUNNING
    assert await _exit_code(runtime, container, "true") == 0 or not await runtime.is_ours()


async def test_user_namespace_maps_ids_if_the_runtime_announces_it(runtime: Runtime) -> None:
    """A runtime that does not announce the feature refuses it; a runtime older than the field ignores it."""
    handlers = (await runtime.client.status()).runtime_handlers
    announced = any(handler.features.user_namespaces for handler in handlers if not handler.name)
    config = runtime.pod_config()
    options = config.linux.security_context.namespace_options
    for mapping in (options.userns_options.uids, options.userns_options.gids):
        mapping.add(host_id=500000, container_id=0, length=65536)
    program = Program("mapped", ("sh", "-c", "cat /proc/self/uid_map; stat -c %u /bin; touch /new"), Script())
    wanted = runtime.container_config(program)
    wanted.linux.security_context.namespace_options.userns_options.CopyFrom(options.userns_options)
    if await runtime.is_ours() and not announced:
        with pytest.raises(CriError, match="user namespaces are not supported here"):
            await runtime.sandbox(config)
        return
    container = await runtime.client.create_container(await runtime.sandbox(config), wanted, config)
    await runtime.client.start_container(container)
    status = await runtime.ended(container)
    words = " ".join(line.split(" ", 3)[3] for line in Path(status.log_path).read_text().splitlines()).split()
    expected = ["0", "500000", "65536"] if announced else Path("/proc/self/uid_map").read_text().split()
    assert (words, status.exit_code) == ([*expected, "0"], 0)


@pytest.mark.parametrize("shared_pid", [False, True])
async def test_user_namespace_with_the_network_of_the_node_runs_if_announced(
    runtime: Runtime, shared_pid: bool
) -> None:
    """As a kubelet with the gate UserNamespacesHostNetworkSupport requests it; only if the runtime announces it."""
    if not (await runtime.client.status()).features.user_namespaces_host_network:
        assert (
            not await runtime.is_ours()
            or not (await runtime.client.status()).runtime_handlers[0].features.user_namespaces
        )
        return
    config = runtime.pod_config()
    options = config.linux.security_context.namespace_options
    options.network, options.pid = pb.NODE, pb.POD if shared_pid else pb.CONTAINER
    for mapping in (options.userns_options.uids, options.userns_options.gids):
        mapping.add(host_id=500000, container_id=0, length=65536)
    script = (
        "readlink /proc/self/ns/net; cut -c -80 /proc/self/uid_map; ls /sys/class/net | grep -c lo; "
        "mkdir /sys/fs/x 2>&1"
    )
    wanted = runtime.container_config(Program("mapped", ("sh", "-c", script), Script()))
    wanted.linux.security_context.namespace_options.CopyFrom(options)
    container = await runtime.client.create_container(await runtime.sandbox(config), wanted, config)
    await runtime.client.start_container(container)
    status = await runtime.ended(container)
    lines = [line.split(" ", 3)[3].split() for line in Path(status.log_path).read_text().splitlines()]
    assert lines[:3] == [[str(Path("/proc/self/ns/net").readlink())], ["0", "500000", "65536"], ["1"]], lines
    assert status.exit_code != 0 and "Read-only" in " ".join(lines[3]), lines


async def test_an_image_as_a_volume(runtime: Runtime) -> None:
    config = runtime.container_config(STUBBORN)
    config.mounts.add(container_path="/image", readonly=True, image=pb.ImageSpec(image=runtime.image))
    sandbox = await runtime.sandbox()
    if not await runtime.is_ours():
        with pytest.raises(CriError):
            await runtime.client.create_container(sandbox, config, runtime.pod_config())
        return
    container = await runtime.client.create_container(sandbox, config, runtime.pod_config())
    await runtime.client.start_container(container)
    assert await _exit_code(runtime, container, "test -x /image/bin/busybox") == 0
    assert await _exit_code(runtime, container, "touch /image/new") != 0
    (mount,) = (await runtime.status(container)).mounts
    assert mount.image.image_ref == (await runtime.status(container)).image_id


async def test_cdi_device_without_specification_is_refused(runtime: Runtime) -> None:
    """The error names the device; a runtime older than the field ignores it."""
    config = runtime.container_config(STUBBORN)
    config.CDI_devices.add(name="no.such/vendor=0")
    sandbox = await runtime.sandbox()
    if await runtime.is_ours():
        with pytest.raises(CriError, match=r"no\.such/vendor=0"):
            await runtime.client.create_container(sandbox, config, runtime.pod_config())
        assert await runtime.client.list_containers(pb.ContainerFilter(pod_sandbox_id=sandbox)) == []
        return
    try:
        container = await runtime.client.create_container(sandbox, config, runtime.pod_config())
    except CriError as error:
        assert "no.such/vendor=0" in str(error)
        return
    assert "no.such" not in (await runtime.client.container_status(container, verbose=True)).info["info"]


async def test_verbose_status_of_a_sandbox(runtime: Runtime) -> None:
    """The fields of ``crictl inspectp`` that people and tools read."""
    config = runtime.pod_config()
    sandbox = await runtime.sandbox(config)
    said = json.loads((await runtime.client.pod_sandbox_status(sandbox, verbose=True)).info["info"])
    assert said["config"]["metadata"]["name"] == config.metadata.name
    assert said["config"]["hostname"] == config.hostname
    (network,) = [each for each in said["runtimeSpec"]["linux"]["namespaces"] if each["type"] == "network"]
    namespace, mine = Path(network["path"]).stat(), Path("/proc/self/ns/net").stat()
    assert namespace.st_dev == mine.st_dev and namespace.st_ino != mine.st_ino
    container = await runtime.create(sandbox, STUBBORN)
    said = json.loads((await runtime.client.container_status(container, verbose=True)).info["info"])
    assert said["config"]["command"] == list(STUBBORN.command)


async def _exit_code(runtime: Runtime, container: ContainerID, command: str) -> int:
    return (await runtime.client.exec_sync(container, ["sh", "-c", command], 10)).exit_code
