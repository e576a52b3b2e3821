"""Contract of confinement: users, privileges, namespaces, limits, mounts and devices. On real runtimes only."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pykubelet.base.errors import PykubeletError
from pykubelet.kubelet.actuate.cri import CriError, CriTimeout
from pykubelet.linux import system
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.fake_cri import Script
from tests.contract.cri.rig import REAL, STUBBORN, Program, Runtime

pytestmark = [pytest.mark.parametrize("endpoint", REAL, indirect=True)]
Change = Callable[[pb.ContainerConfig], None]
PodChange = Callable[[pb.PodSandboxConfig], None]


async def said(
    runtime: Runtime, command: str, change: Change | None = None, pod_change: PodChange | None = None
) -> str:
    """Run a shell command in a new container; returns its output."""
    pod = runtime.pod_config()
    if pod_change is not None:
        pod_change(pod)
    program = Program("teller", ("sh", "-c", command), Script())
    config = runtime.container_config(program)
    if change is not None:
        change(config)
    container = await runtime.client.create_container(await runtime.sandbox(pod), config, pod)
    await runtime.client.start_container(container)
    status = await runtime.ended(container)
    return "\n".join(line.split(" ", 3)[3] for line in Path(status.log_path).read_text().splitlines())


def _security(config: pb.ContainerConfig) -> pb.LinuxContainerSecurityContext:
    return config.linux.security_context


def _as_user(config: pb.ContainerConfig) -> None:
    context = _security(config)
    context.run_as_user.value, context.run_as_group.value = 1234, 5678
    context.supplemental_groups.append(4321)


def _by_name(config: pb.ContainerConfig) -> None:
    _security(config).run_as_username = "nobody"


def _read_only(config: pb.ContainerConfig) -> None:
    _security(config).readonly_rootfs = True


def _without_rights(config: pb.ContainerConfig) -> None:
    _security(config).capabilities.drop_capabilities.append("ALL")
    _security(config).no_new_privs = True


def _one_right(config: pb.ContainerConfig) -> None:
    _without_rights(config)
    _security(config).capabilities.add_capabilities.append("NET_ADMIN")


def _hidden(config: pb.ContainerConfig) -> None:
    _security(config).masked_paths.append("/proc/version")
    _security(config).readonly_paths.append("/proc/sys")


def _seccomp(config: pb.ContainerConfig) -> None:
    _security(config).seccomp.profile_type = pb.SecurityProfile.RuntimeDefault


def _environment(config: pb.ContainerConfig) -> None:
    config.envs.add(key="GREETING", value=b"hello there")
    config.working_dir = "/tmp"


def _with_device(config: pb.ContainerConfig) -> None:
    config.devices.add(container_path="/dev/mine", host_path="/dev/full", permissions="rw")


def _limited(config: pb.ContainerConfig) -> None:
    config.linux.resources.memory_limit_in_bytes = 64 << 20
    config.linux.resources.cpu_quota, config.linux.resources.cpu_period = 20000, 100000


def _privileged(config: pb.ContainerConfig) -> None:
    _security(config).privileged = True


def _privileged_pod(config: pb.PodSandboxConfig) -> None:
    config.linux.security_context.privileged = True


@pytest.mark.parametrize(
    ("command", "change", "expected"),
    [
        ("id -u; id -g; id -G", _as_user, "1234\n5678\n5678 4321"),
        ("id -un", _by_name, "nobody"),
        ("touch /new 2>/dev/null || echo refused", _read_only, "refused"),
        ("grep -E 'CapEff|NoNewPrivs' /proc/self/status", _without_rights, "CapEff:\t0000000000000000\nNoNewPrivs:\t1"),
        ("grep CapEff /proc/self/status", _one_right, "CapEff:\t0000000000001000"),
        (
            "wc -c < /proc/version; echo 1 2>/dev/null > /proc/sys/kernel/domainname || echo refused",
            _hidden,
            "0\nrefused",
        ),
        ("grep Seccomp: /proc/self/status", _seccomp, "Seccomp:\t2"),
        ("grep Seccomp: /proc/self/status", None, "Seccomp:\t0"),
        ("echo $GREETING; pwd", _environment, "hello there\n/tmp"),
        ("stat -c '%t:%T' /dev/mine; (echo x > /dev/mine) 2>/dev/null || echo full", _with_device, "1:7\nfull"),
        ("echo $$; hostname; test -d /dev/shm && test -c /dev/null && echo fine", None, "1\npod\nfine"),
    ],
)
async def test_confinement_of_the_configuration_shows_in_the_container(
    runtime: Runtime, command: str, change: Change | None, expected: str
) -> None:
    assert await said(runtime, command, change) == expected


async def test_privileged_container_has_all_capabilities_and_can_mount(runtime: Runtime) -> None:
    command = "grep CapEff /proc/self/status; mkdir /m && mount -t tmpfs none /m && echo mounted"
    own = Path("/proc/self/status").read_text().partition("CapBnd:\t")[2][:16]
    found = await said(runtime, command, _privileged, _privileged_pod)
    assert found == f"CapEff:\t{own}\nmounted"


async def test_limits_reach_the_cgroup(runtime: Runtime) -> None:
    command = (
        "cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.max;"
        "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null || cut -d' ' -f1 /sys/fs/cgroup/cpu.max"
    )
    assert await said(runtime, command, _limited) == f"{64 << 20}\n20000"


async def test_processors_and_huge_pages_reach_the_cgroup(runtime: Runtime) -> None:
    def change(config: pb.ContainerConfig) -> None:
        config.linux.resources.cpuset_cpus = "0"
        if pages:
            config.linux.resources.hugepage_limits.add(page_size="2MB", limit=4 << 20)

    pages = next((each for each in _HUGE_PAGES if each.exists() or list(each.parent.glob(f"*/{each.name}"))), None)
    command = f"grep Cpus_allowed_list /proc/self/status | cut -f2; cat {pages or '/dev/null'}"
    assert (await said(runtime, command, change)).split() == ["0", *([f"{4 << 20}"] if pages else [])]


_HUGE_PAGES = (
    Path("/sys/fs/cgroup/hugetlb/hugetlb.2MB.limit_in_bytes"),
    Path("/sys/fs/cgroup/hugetlb.2MB.max"),
)
_SEEN_LIMITS = (
    "cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.max;"
    "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null || cut -d' ' -f1 /sys/fs/cgroup/cpu.max;"
    "cat /sys/fs/cgroup/cpu/cpu.shares 2>/dev/null || cat /sys/fs/cgroup/cpu.weight"
)


async def test_limits_change_while_it_runs(runtime: Runtime) -> None:
    """The update changes the container's cgroup, not only its status; fields that are not given do not change."""

    async def seen() -> list[int]:
        result = await runtime.client.exec_sync(container, ["sh", "-c", _SEEN_LIMITS], 10)
        return [int(word) for word in result.stdout.split()]

    config = runtime.container_config(STUBBORN)
    _limited(config)
    container = await runtime.client.create_container(await runtime.sandbox(), config, runtime.pod_config())
    await runtime.client.start_container(container)
    memory, quota, shares = await seen()
    assert (memory, quota) == (64 << 20, 20000)
    await runtime.client.update_container_resources(
        container, pb.LinuxContainerResources(memory_limit_in_bytes=96 << 20, cpu_quota=50000, cpu_period=100000)
    )
    assert await seen() == [96 << 20, 50000, shares]
    await runtime.client.update_container_resources(container, pb.LinuxContainerResources(cpu_shares=2048))
    memory, quota, more = await seen()
    assert (memory, quota) == (96 << 20, 50000) and more > shares
    reported = (await runtime.status(container)).resources.linux
    assert (reported.memory_limit_in_bytes, reported.cpu_quota, reported.cpu_shares) == (96 << 20, 50000, 2048)


async def test_read_only_mount_refuses_writes_and_the_other_reaches_the_node(runtime: Runtime, tmp_path: Path) -> None:
    (tmp_path / "word").write_text("from the node\n")

    def change(config: pb.ContainerConfig) -> None:
        config.mounts.add(container_path="/ro", host_path=str(tmp_path), readonly=True)
        config.mounts.add(container_path="/rw", host_path=str(tmp_path))

    command = "cat /ro/word; touch /ro/x 2>/dev/null || echo refused; echo back > /rw/answer"
    assert await said(runtime, command, change) == "from the node\nrefused"
    assert (tmp_path / "answer").read_text() == "back\n"


def _node_network(config: pb.PodSandboxConfig) -> None:
    config.hostname = ""
    config.linux.security_context.namespace_options.network = pb.NODE


def _dns(config: pb.PodSandboxConfig) -> None:
    config.dns_config.servers.append("10.9.8.7")
    config.dns_config.searches.append("a.example")
    config.dns_config.options.append("ndots:3")


def _sysctl(config: pb.PodSandboxConfig) -> None:
    config.linux.sysctls["net.ipv4.tcp_syncookies"] = "0"
    config.linux.sysctls["kernel.shm_rmid_forced"] = "1"


async def test_resolv_conf_has_the_dns_of_the_request(runtime: Runtime) -> None:
    found = await said(runtime, "cat /etc/resolv.conf", pod_change=_dns)
    assert set(found.splitlines()) == {"nameserver 10.9.8.7", "search a.example", "options ndots:3"}


async def test_sysctls_of_the_request_are_set_in_the_pod(runtime: Runtime) -> None:
    command = "cat /proc/sys/net/ipv4/tcp_syncookies /proc/sys/kernel/shm_rmid_forced"
    assert await said(runtime, command, pod_change=_sysctl) == "0\n1"


async def test_container_in_the_node_s_network_has_its_namespace(runtime: Runtime) -> None:
    def change(config: pb.ContainerConfig) -> None:
        _security(config).namespace_options.network = pb.NODE

    found = await said(runtime, "readlink /proc/self/ns/net", change, _node_network)
    assert found == str(Path("/proc/self/ns/net").readlink())


async def test_a_command_that_is_too_slow_is_killed(runtime: Runtime) -> None:
    container = await runtime.start(STUBBORN)
    with pytest.raises(CriTimeout):
        await runtime.client.exec_sync(container, ["sleep", "54321"], 1)
    left = await runtime.client.exec_sync(container, ["sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"], 10)
    assert b"sleep 54321" not in left.stdout


@pytest.mark.parametrize(
    ("command", "code"),
    [("exec tail /dev/zero", 137), ("tail /dev/zero; sleep 1; exit 0", 0)],
    ids=["program", "child"],
)
async def test_container_above_its_memory_limit_is_oom_killed(runtime: Runtime, command: str, code: int) -> None:
    """Also if its program goes on without the child that was killed, and succeeds."""
    greedy = Program("greedy", ("sh", "-c", command), Script())
    config = runtime.container_config(greedy)
    config.linux.resources.memory_limit_in_bytes = 16 << 20
    container = await runtime.client.create_container(await runtime.sandbox(), config, runtime.pod_config())
    await runtime.client.start_container(container)
    status = await runtime.ended(container)
    # containerd 1.6 sometimes does not hear of a kill with which the container has ended.
    lost = status.exit_code != 0 and not await runtime.is_ours()
    assert status.exit_code == code
    assert status.reason in ({"OOMKilled", "Error"} if lost else {"OOMKilled"})


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.devices.add(container_path="/dev/x", host_path="/dev/no-such-device"),
        lambda c: setattr(_security(c), "run_as_username", "no-such-user"),
        lambda c: _security(c).run_as_group.CopyFrom(pb.Int64Value(value=5)),
        lambda c: _security(c).seccomp.CopyFrom(
            pb.SecurityProfile(profile_type=pb.SecurityProfile.Localhost, localhost_ref="/no/such/profile.json")
        ),
        lambda c: _security(c).apparmor.CopyFrom(
            pb.SecurityProfile(profile_type=pb.SecurityProfile.Localhost, localhost_ref="no-such-profile")
        ),
    ],
)
async def test_containers_that_are_refused(runtime: Runtime, change: Change) -> None:
    config = runtime.container_config(STUBBORN)
    change(config)
    with pytest.raises(CriError):
        container = await runtime.client.create_container(await runtime.sandbox(), config, runtime.pod_config())
        await runtime.client.start_container(container)


@pytest.mark.parametrize("kind", [None, pb.SecurityProfile.RuntimeDefault, pb.SecurityProfile.Unconfined])
async def test_apparmor_profile_of_the_request_confines_the_container(
    runtime: Runtime, kind: "pb.SecurityProfile.ProfileType.ValueType | None"
) -> None:
    def change(config: pb.ContainerConfig) -> None:
        if kind is not None:
            _security(config).apparmor.profile_type = kind

    on = system.app_armor_enabled() and await runtime.is_ours() and shutil.which("apparmor_parser") is not None
    command = (
        "cat /proc/self/attr/current 2>/dev/null || echo none; echo p 2>/dev/null >/proc/sys/kernel/hostname || echo no"
    )
    if kind == pb.SecurityProfile.RuntimeDefault and not system.app_armor_enabled() and not await runtime.is_ours():
        # containerd refuses it if the kernel has no AppArmor; pykubelet's server then applies no profile.
        with pytest.raises(CriError, match="apparmor is not supported"):
            await said(runtime, command, change)
        return
    found = (await said(runtime, command, change)).splitlines()
    if on and kind != pb.SecurityProfile.Unconfined:
        assert found == ["pykubelet-default (enforce)", "no"]
    else:
        assert found[0] in ("none", "unconfined", "kernel")


@pytest.mark.parametrize(("name", "value"), [("kernel.nonsense", "1"), ("kernel.core_pattern", "|/evil")])
async def test_a_forbidden_sysctl_is_refused_and_leaves_nothing(runtime: Runtime, name: str, value: str) -> None:
    """CVE-2022-0811."""
    pattern = Path("/proc/sys/kernel/core_pattern").read_text()
    config = runtime.pod_config()
    config.linux.sysctls[name] = value
    with pytest.raises(PykubeletError, match="kernel"):
        await runtime.sandbox(config)
    assert Path("/proc/sys/kernel/core_pattern").read_text() == pattern
    # The name can be used again.
    await runtime.sandbox()


async def test_verbose_status_is_json(runtime: Runtime) -> None:
    container = await runtime.start(STUBBORN)
    info = (await runtime.client.container_status(container, verbose=True)).info
    said_of = json.loads(info["info"])
    assert said_of["pid"] > 1
    assert said_of["runtimeSpec"]["process"]["args"] == list(STUBBORN.command)
