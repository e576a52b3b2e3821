"""Settings of runtime handlers, the metrics and the verbose status of a server with a configuration of its own."""

import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from pykubelet.base.errors import PykubeletError
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.fake_cri import Script
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.ociimage import ImageSpec
from pykubelet.testing.runtime import bridge_network
from pykubelet.testing.traces import remove_cgroups
from pykubelet.testing.wait import until, until_answer
from tests.contract.cri.rig import CGROUP, Program, Runtime, connected
from tests.manifests import BUSYBOX

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.only_on("criserver")]

_BASE = {
    "process": {"rlimits": [{"type": "RLIMIT_NOFILE", "hard": 77, "soft": 77}], "env": ["OF_BASE=yes"]},
    "hooks": {},
}
_DISK = next((f"/dev/{each.name}" for each in Path("/sys/block").iterdir() if each.name[:2] in ("vd", "sd", "nv")), "")
"""A disk of this machine; empty: it has none of the usual kinds."""
_LOOK = Program(
    "look",
    (
        "sh",
        "-c",
        "ulimit -n; echo $OF_BASE; grep -E ' /sys/fs/cgroup/?[a-z,_]* ' /proc/self/mounts | grep -c ' cgroup2\\? rw';"
        " ls /dev | wc -l; ip -4 addr show eth0 | grep -o 'inet [0-9.]*'; exec sleep 600",
    ),
    Script(),
)


@pytest.fixture(scope="module")
def server(isolation: Isolation) -> Iterator[PrivateCriServer]:
    home = isolation.home / "o"
    base, networks = home / "base.json", home / "networks"
    special = {
        "path": "runc",
        "pod_annotations": ["run.example/*"],
        "container_annotations": ["device.example/*"],
        "privileged_without_host_devices": True,
        "cgroup_writable": True,
        "base_runtime_spec": str(base),
        "cni_conf_dir": str(networks),
    }
    further = {
        "default_handler": "runc",
        "handlers": {"runc": {"path": "runc"}, "special": special},
        "blockio_config_file": str(home / "blockio.yaml"),
        "device_ownership_from_security_context": True,
        "metrics_address": str(home / "metrics.sock"),
        "registries": {"r.example": {"username": "me", "password": "secret-word"}},
    }
    made = PrivateCriServer(home, f"{isolation.bridge}o", isolation.further_subnet("o"), further=further)
    own = bridge_network(f"{isolation.bridge}q", isolation.further_subnet("q"), home / "own-ipam", ())
    try:
        made.write_configuration()
        networks.mkdir(exist_ok=True)
        base.write_text(json.dumps(_BASE))
        (home / "blockio.yaml").write_text(f"Classes: {{slow: [{{Devices: [{_DISK}], ThrottleReadBps: 3M}}]}}")
        (networks / "10.conflist").write_text(json.dumps(own))
        made.load(ImageSpec(BUSYBOX))
        made.start()
        yield made
    finally:
        made.destroy()
        PrivateCriServer(home, f"{isolation.bridge}q", "").destroy()
        remove_cgroups(CGROUP)


@pytest.fixture
async def runtime(server: PrivateCriServer, tmp_path: Path) -> AsyncIterator[Runtime]:
    async with connected(server.endpoint, tmp_path) as made:
        yield made


async def _look(runtime: Runtime, handler: str, *, privileged: bool = False, attempt: int = 0) -> tuple[str, list[str]]:
    """Start the program in a pod of the handler; return the container's id and the lines of its log."""
    pod = runtime.pod_config(attempt)
    pod.annotations.update({"run.example/a": "1", "other.example/b": "2"})
    config = runtime.container_config(_LOOK, attempt)
    config.annotations["device.example/c"] = "3"
    pod.linux.security_context.privileged = config.linux.security_context.privileged = privileged
    sandbox = await runtime.sandbox(pod, handler)
    container = await runtime.client.create_container(sandbox, config, pod)
    await runtime.client.start_container(container)
    log = Path((await runtime.client.container_status(container)).status.log_path)
    await until(lambda: log.exists() and log.read_text().count("\n") >= 5)
    return container, [line.split(" ", 3)[3] for line in log.read_text().splitlines()]


async def test_settings_of_a_handler_reach_the_container(
    runtime: Runtime, server: PrivateCriServer, isolation: Isolation
) -> None:
    container, lines = await _look(runtime, "special")
    assert lines[:2] == ["77", "yes"], lines
    assert int(lines[2]) > 0, "the cgroup is not writable"
    spec = json.loads((server.home / "run/bundles" / container / "config.json").read_text())
    assert (
        spec["annotations"].items()
        >= {
            "run.example/a": "1",
            "device.example/c": "3",
            "io.kubernetes.cri.container-type": "container",
            "io.kubernetes.cri.sandbox-id": runtime.sandboxes[0],
            "io.kubernetes.cri.image-name": BUSYBOX,
        }.items()
    )
    assert "other.example/b" not in spec["annotations"]
    address = (await runtime.client.pod_sandbox_status(runtime.sandboxes[0])).status.network.ip
    assert lines[4] == f"inet {address}"
    assert ip_address(address) in ip_network(isolation.further_subnet("q"))


async def test_default_handler_has_none_of_these_settings(runtime: Runtime) -> None:
    _, lines = await _look(runtime, "runc")
    assert lines[0] != "77" and lines[1:3] == ["", "0"], lines


async def test_privileged_containers_get_host_devices_only_where_the_handler_lets_them(runtime: Runtime) -> None:
    _, limited = await _look(runtime, "special", privileged=True)
    _, full = await _look(runtime, "runc", privileged=True, attempt=1)
    assert int(limited[3]) < int(full[3]), (limited, full)


async def test_requested_devices_belong_to_the_user_of_the_container(runtime: Runtime) -> None:
    config = runtime.container_config(Program("owner", ("stat", "-c", "%u:%g", "/dev/mine"), Script()))
    config.devices.add(host_path="/dev/null", container_path="/dev/mine", permissions="rw")
    config.linux.security_context.run_as_user.value = 1234
    config.linux.security_context.run_as_group.value = 77
    container = await runtime.client.create_container(await runtime.sandbox(), config, runtime.pod_config())
    await runtime.client.start_container(container)
    log = Path((await runtime.ended(container)).log_path)
    assert log.read_text().split(" ", 3)[3] == "1234:77\n"


async def test_metrics_and_verbose_status(runtime: Runtime, server: PrivateCriServer) -> None:
    await _look(runtime, "special")
    connector = aiohttp.UnixConnector(str(server.home / "metrics.sock"))
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.get("http://localhost/metrics") as reply,
    ):
        text = (await reply.read()).decode()
    values = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if line[0] != "#"}
    assert values['pykubelet_criserver_calls_total{code="OK",method="RunPodSandbox"}'] >= 1
    assert values['containerd_cri_container_start_seconds_count{runtime="special"}'] >= 1
    assert values['containerd_cri_network_plugin_operations_total_total{operation_type="set_up_pod"}'] >= 1
    assert values["pykubelet_criserver_containers_running"] == 1
    assert values["pykubelet_criserver_database_bytes"] > 0
    info = (await runtime.client.status(verbose=True)).info
    assert "secret-word" not in str(info)
    settings = json.loads(info["config"])["settings"]
    assert settings["handlers"]["special"]["cgroup_writable"] is True
    assert settings["registries"]["r.example"]["password"] == "(set)"
    assert json.loads(info["lastCNILoadStatus"]) == "OK"


@pytest.mark.skipif(not _DISK, reason="this machine has no disk (virtio, SCSI, NVMe)")
async def test_block_io_class_of_a_pod_limits_its_disk(runtime: Runtime) -> None:
    pod = runtime.pod_config()
    pod.annotations["blockio.resources.beta.kubernetes.io/pod"] = "slow"
    sandbox = await runtime.sandbox(pod)
    container = await runtime.client.create_container(sandbox, runtime.container_config(_LOOK), pod)
    await runtime.client.start_container(container)
    top = Path("/sys/fs/cgroup")
    name = "io.max" if (top / "cgroup.controllers").exists() else "blkio.throttle.read_bps_device"
    (file,) = [path for path in top.glob(f"**/{container}/{name}") if path.parent.name == container]
    number = Path(_DISK).stat().st_rdev
    assert f"{os.major(number)}:{os.minor(number)}" in file.read_text() and "3000000" in file.read_text()
    pod.annotations["blockio.resources.beta.kubernetes.io/pod"] = "fast"
    with pytest.raises(PykubeletError, match=r"block I/O class 'fast' is not in .*; its classes: slow"):
        await runtime.client.create_container(
            await runtime.sandbox(_other(pod)), runtime.container_config(_LOOK, 1), _other(pod)
        )
    del pod.annotations["blockio.resources.beta.kubernetes.io/pod"]
    pod.annotations["rdt.resources.beta.kubernetes.io/pod"] = "gold"
    with pytest.raises(PykubeletError, match=r"RDT class 'gold'"):
        await runtime.client.create_container(
            await runtime.sandbox(_other(pod, 2)), runtime.container_config(_LOOK, 2), _other(pod, 2)
        )


def _other(pod: pb.PodSandboxConfig, attempt: int = 1) -> pb.PodSandboxConfig:
    """The same pod in another attempt."""
    found = pb.PodSandboxConfig()
    found.CopyFrom(pod)
    found.metadata.attempt = attempt
    return found


async def test_configuration_is_reloaded_without_a_restart(runtime: Runtime, server: PrivateCriServer) -> None:
    """A change of the file and SIGHUP; running pods keep what they have, and a broken file changes nothing."""

    async def info(part: str) -> Any:
        return json.loads((await runtime.client.status(verbose=True)).info[part])

    async def configure(**changes: object) -> None:
        server.config.write_text(json.dumps(before | changes))

    pid, before = server.pid(), json.loads(server.config.read_text())
    _, lines = await _look(runtime, "special")
    base = server.home / "late.json"
    base.write_text(json.dumps({"process": {"rlimits": [{"type": "RLIMIT_NOFILE", "hard": 78, "soft": 78}]}}))
    late = {"runc": {"path": "runc"}, "late": {"path": "runc", "base_runtime_spec": str(base)}}
    try:
        await configure(handlers=late, conmon="/no/conmon", registries={"late.example": {"plain_http": True}})
        await until_answer(lambda: _is(info("config"), lambda found: "late" in found["handlers"]))
        assert (await info("configuration"))["needsRestart"] == ["conmon"]
        assert (await info("registries"))["hosts"]["late.example"]["plain_http"] is True
        _, lines = await _look(runtime, "late", attempt=1)
        assert lines[0] == "78", lines
        with pytest.raises(PykubeletError, match="no runtime is configured for handler 'special'"):
            await runtime.sandbox(runtime.pod_config(2), "special")
        # The pod of the removed handler still gets containers with its settings.
        config = runtime.container_config(_LOOK, 3)
        again = await runtime.client.create_container(runtime.sandboxes[0], config, runtime.pod_config(0))
        spec = json.loads((server.home / "run/bundles" / again / "config.json").read_text())
        assert spec["process"]["rlimits"][0]["hard"] == 77
        base.write_text("{")
        await until_answer(lambda: _is(info("configuration"), lambda found: str(base) in found["error"]))
        _, lines = await _look(runtime, "late", attempt=4)
        assert lines[0] == "78", lines
        networks = Path((await info("cniconfig"))["directory"])
        (network,) = (await info("cniconfig"))["networks"]
        good = Path(network["file"]).read_bytes()
        Path(network["file"]).write_bytes(b"{")
        try:
            assert pid is not None
            os.kill(pid, signal.SIGHUP)
            await until_answer(
                lambda: _is(info("configuration"), lambda found: str(networks) in str(found["problems"]))
            )
            assert await info("lastCNILoadStatus") == "OK"
            await _look(runtime, "runc", attempt=5)
        finally:
            Path(network["file"]).write_bytes(good)
    finally:
        await configure()
    await until_answer(lambda: _is(info("config"), lambda found: "special" in found["handlers"]))
    await until_answer(lambda: _is(info("configuration"), lambda found: not found["problems"] and not found["error"]))
    assert server.pid() == pid


async def _is(found: Awaitable[Any], wanted: Callable[[Any], bool]) -> bool:
    return wanted(await found)
