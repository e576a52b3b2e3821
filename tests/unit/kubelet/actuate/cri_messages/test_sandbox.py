"""The sandbox's message as a whole."""

import pytest

from pykubelet.base.units import Bytes
from pykubelet.kubelet.actuate.cgroups.plan.linux_resources import LinuxResources
from pykubelet.kubelet.actuate.cri_messages.config_types import ConfigError, ConfigReason, Resolver, SandboxContext
from pykubelet.kubelet.actuate.cri_messages.sandbox import sandbox_config
from pykubelet.pb import runtime_v1_pb2 as pb
from tests.unit.kubelet.actuate.cri_messages.build import make_pod

CONTEXT = SandboxContext(
    cgroup_parent="/kubepods/burstable/podu-1",
    resolver=Resolver(nameservers=("192.0.2.1",), searches=("example",), options=("rotate",)),
)


def test_sandbox_message_has_all_fields_of_the_manifest() -> None:
    pod = make_pod(
        {
            "dnsPolicy": "Default",
            "hostname": "db",
            "containers": [{"name": "a", "ports": [{"containerPort": 80, "hostPort": 8080, "protocol": "UDP"}]}],
            "securityContext": {"sysctls": [{"name": "net/ipv4/tcp_syncookies", "value": "1"}]},
        },
        labels={"app": "x"},
        annotations={"note": "y"},
    )
    context = SandboxContext(
        cgroup_parent=CONTEXT.cgroup_parent,
        resolver=CONTEXT.resolver,
        resources=LinuxResources(cpu_shares=512, memory_limit=Bytes(1 << 20)),
        overhead=LinuxResources(cpu_shares=2, cpu_quota_us=1000, cpu_period_us=100_000),
    )
    config = sandbox_config(pod, 2, context)
    security = config.linux.security_context
    config.linux.ClearField("security_context")
    assert config == pb.PodSandboxConfig(
        metadata=pb.PodSandboxMetadata(name="web", namespace="shop", uid="u-1", attempt=2),
        hostname="db",
        log_directory="/var/log/pods/shop_web_u-1",
        dns_config=pb.DNSConfig(servers=["192.0.2.1"], searches=["example"], options=["rotate"]),
        port_mappings=[pb.PortMapping(protocol=pb.UDP, container_port=80, host_port=8080)],
        labels={
            "app": "x",
            "io.kubernetes.pod.name": "web",
            "io.kubernetes.pod.namespace": "shop",
            "io.kubernetes.pod.uid": "u-1",
        },
        annotations={"note": "y"},
        linux=pb.LinuxPodSandboxConfig(
            cgroup_parent="/kubepods/burstable/podu-1",
            sysctls={"net.ipv4.tcp_syncookies": "1"},
            resources=pb.LinuxContainerResources(cpu_shares=512, memory_limit_in_bytes=1 << 20),
            overhead=pb.LinuxContainerResources(cpu_shares=2, cpu_quota=1000, cpu_period=100_000),
        ),
    )
    assert security.seccomp.profile_type == pb.SecurityProfile.RuntimeDefault


def test_on_the_hosts_network_there_is_no_hostname() -> None:
    # An override that would be refused is not even looked at.
    assert sandbox_config(make_pod({"hostNetwork": True, "hostname": "BAD"}), 0, CONTEXT).hostname == ""


def test_no_resources_are_no_message() -> None:
    linux = sandbox_config(make_pod(), 0, CONTEXT).linux
    assert not linux.HasField("resources")
    assert not linux.HasField("overhead")


def test_forbidden_sysctls_are_refused_here_too() -> None:
    pod = make_pod({"securityContext": {"sysctls": [{"name": "kernel.core_pattern", "value": "|x"}]}})
    with pytest.raises(ConfigError, match="forbidden sysctl") as caught:
        sandbox_config(pod, 0, CONTEXT)
    assert caught.value.reason is ConfigReason.SYSCTL_FORBIDDEN


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [{"name": "a", "ports": [{"containerPort": 2**40}]}]},
        {"securityContext": {"fsGroup": 2**63 - 1, "supplementalGroups": [2**63]}},
        {"dnsConfig": {"nameservers": ["\ud800"]}},
    ],
)
def test_value_that_does_not_fit_the_message_is_a_config_error(spec: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="Failed to generate sandbox config for pod") as caught:
        sandbox_config(make_pod(spec), 0, CONTEXT)
    assert caught.value.reason is ConfigReason.CREATE_POD_SANDBOX
