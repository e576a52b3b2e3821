"""The Go kubelet's flags that kubeadm, its unit file and users pass set the right fields."""

from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner

from pykubelet.base.errors import Invalid
from pykubelet.cli.app import cli
from pykubelet.cli.arguments.kubelet_flags import FIELDS, kubelet_options, take_kubelet_flags
from pykubelet.cli.commands.node import run
from pykubelet.cli.commands.node.run import _log_settings
from pykubelet.kubelet.config import KubeletConfiguration, load_configuration

GO_FLAGS = """
    address allowed-unsafe-sysctls anonymous-auth application-metrics-count-limit authentication-token-webhook
    authentication-token-webhook-cache-ttl authorization-mode authorization-webhook-cache-authorized-ttl
    authorization-webhook-cache-unauthorized-ttl boot-id-file bootstrap-kubeconfig cert-dir cgroup-driver
    cgroup-root cgroups-per-qos client-ca-file cloud-provider cluster-dns cluster-domain config config-dir
    container-hints container-log-max-files container-log-max-size container-runtime-endpoint containerd
    containerd-namespace contention-profiling cpu-cfs-quota cpu-cfs-quota-period cpu-manager-policy
    cpu-manager-policy-options cpu-manager-reconcile-period enable-controller-attach-detach
    enable-debugging-handlers enable-load-reader enable-server enforce-node-allocatable event-burst event-qps
    event-storage-age-limit event-storage-event-limit eviction-hard eviction-max-pod-grace-period
    eviction-minimum-reclaim eviction-pressure-transition-period eviction-soft eviction-soft-grace-period
    exit-on-lock-contention experimental-allocatable-ignore-eviction experimental-mounter-path fail-cgroupv1
    fail-swap-on feature-gates file-check-frequency global-housekeeping-interval hairpin-mode healthz-bind-address
    healthz-port help hostname-override housekeeping-interval http-check-frequency
    image-credential-provider-bin-dir image-credential-provider-config image-gc-high-threshold
    image-gc-low-threshold image-service-endpoint kernel-memcg-notification kube-api-burst kube-api-content-type
    kube-api-qps kube-reserved kube-reserved-cgroup kubeconfig kubelet-cgroups local-storage-capacity-isolation
    lock-file log-cadvisor-usage log-flush-frequency log-json-info-buffer-size log-json-split-stream
    log-text-info-buffer-size log-text-split-stream logging-format machine-id-file make-iptables-util-chains
    manifest-url manifest-url-header max-housekeeping-interval max-open-files max-pods maximum-dead-containers
    maximum-dead-containers-per-container memory-manager-policy minimum-container-ttl-duration
    minimum-image-ttl-duration node-ip node-labels node-status-max-images node-status-update-frequency
    oom-score-adj pod-cidr pod-manifest-path pod-max-pids pods-per-core port protect-kernel-defaults provider-id
    qos-reserved read-only-port register-node register-with-taints registry-burst registry-qps reserved-cpus
    reserved-memory resolv-conf root-dir rotate-certificates rotate-server-certificates runonce runtime-cgroups
    runtime-request-timeout seccomp-default serialize-image-pulls storage-driver-buffer-duration storage-driver-db
    storage-driver-host storage-driver-password storage-driver-secure storage-driver-table storage-driver-user
    streaming-connection-idle-timeout sync-frequency system-cgroups system-reserved system-reserved-cgroup
    tls-cert-file tls-cipher-suites tls-min-version tls-private-key-file topology-manager-policy
    topology-manager-policy-options topology-manager-scope v version vmodule volume-plugin-dir
    volume-stats-agg-period
"""
"""Those of Kubernetes 1.36 on Linux, with those of its logs and of cAdvisor."""


def parsed(*arguments: str) -> tuple[dict[str, object], list[str]]:
    """Return the fields that the flags set."""
    found: list[dict[str, Any]] = []

    @click.command()
    @kubelet_options
    def command(**flags: Any) -> None:
        found.append(flags)

    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.output
    taken = take_kubelet_flags(found[0])
    assert not found[0], "all are taken"
    return taken


def test_every_flag_names_a_field() -> None:
    def fields(kind: Any, prefix: str) -> dict[str, Any]:
        found = {}
        for field in msgspec.structs.fields(kind):
            name = f"{prefix}{field.encode_name}"
            found[name] = field.type
            if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
                found |= fields(field.type, f"{name}.")
        return found

    known = fields(KubeletConfiguration, "")
    assert [path for _, path in FIELDS.values() if path not in known] == []


def test_flag_values_by_kind() -> None:
    assert parsed(
        *("--fail-swap-on=false", "--anonymous-auth", "--max-pods=7", "--cluster-dns", "10.0.0.1,10.0.0.2"),
        *("--eviction-hard=memory.available<1Gi,nodefs.available<5%", "--kube-reserved=cpu=1,memory=1Gi"),
        *("--feature-gates=A=true,B=false", "--cgroup-driver=cgroupfs", "--pod-infra-container-image=pause:3"),
    ) == (
        {
            "authentication.anonymous.enabled": True,
            "cgroupDriver": "cgroupfs",
            "clusterDNS": ["10.0.0.1", "10.0.0.2"],
            "evictionHard": {"memory.available": "1Gi", "nodefs.available": "5%"},
            "failSwapOn": False,
            "featureGates": {"A": True, "B": False},
            "kubeReserved": {"cpu": "1", "memory": "1Gi"},
            "maxPods": 7,
        },
        ["pod-infra-container-image"],
    )


def test_without_flags_nothing_is_set() -> None:
    assert parsed() == ({}, [])


def test_every_flag_of_the_go_kubelet_is_accepted() -> None:
    known = {name.lstrip("-") for option in run.command.params for name in option.opts} | {"help"}
    assert set(GO_FLAGS.split()) - known == set()


def test_flags_without_effect_are_named() -> None:
    assert parsed("--housekeeping-interval=5m", "--log-flush-frequency=5s", "--reserved-memory=0:memory=1Gi") == (
        {},
        ["log-flush-frequency", "reserved-memory", "housekeeping-interval"],
    )


def test_repeated_flags_add_up() -> None:
    assert parsed(
        *("--cluster-dns=10.0.0.10", "--cluster-dns=fd00::a", "--kube-reserved=cpu=1", "--kube-reserved=cpu=2,pid=9"),
        *("--feature-gates=A=true,B=true", "--feature-gates=B=false", "--eviction-hard=memory.available<1Gi"),
        *("--eviction-hard=nodefs.available<5%", "--manifest-url-header=A:b,A:c:d", "--manifest-url-header=E:f"),
        *("--max-pods=1", "--max-pods=2"),
    )[0] == {
        "clusterDNS": ["10.0.0.10", "fd00::a"],
        "evictionHard": {"memory.available": "1Gi", "nodefs.available": "5%"},
        "featureGates": {"A": True, "B": False},
        "kubeReserved": {"cpu": "2", "pid": "9"},
        "maxPods": 2,
        "staticPodURLHeader": {"A": ["b", "c:d"], "E": ["f"]},
    }


def test_feature_gates_of_flags_are_added_to_those_of_files_and_other_maps_are_replaced(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
        "featureGates: {MemoryQoS: true, EventedPLEG: false}\nkubeReserved: {cpu: '1'}\n"
    )
    found = load_configuration(file, None, {"featureGates": {"EventedPLEG": True}, "kubeReserved": {"memory": "1Gi"}})
    assert found.feature_gates == {"MemoryQoS": True, "EventedPLEG": True}
    assert found.kube_reserved == {"memory": "1Gi"}


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--max-pods=many", "--max-pods: 'many' is not a whole number"),
        ("--fail-swap-on=maybe", "neither true nor false"),
        ("--kube-reserved=cpu", "'cpu' is not NAME=VALUE"),
        ("--manifest-url-header=cpu", "'cpu' is not NAME:VALUE"),
        ("--eviction-hard=memory.available=1Gi", "is not NAME<VALUE"),
    ],
)
def test_invalid_kubelet_flag_is_named(flag: str, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        parsed(flag)


def test_flags_override_only_their_own_fields_of_files(tmp_path: Path) -> None:
    head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    file, directory = tmp_path / "config.yaml", tmp_path / "conf.d" / "deeper"
    directory.mkdir(parents=True)
    file.write_text(f"{head}maxPods: 1\nauthentication: {{x509: {{clientCAFile: /ca}}, webhook: {{cacheTTL: 1s}}}}\n")
    (directory / "10-more.conf").write_text(f"{head}maxPods: 2\n")
    assert load_configuration(file, tmp_path / "conf.d").max_pods == 2
    flags = {"maxPods": 3, "authentication.webhook.cacheTTL": "9s", "evictionHard": {"a": "1"}}
    found = load_configuration(file, tmp_path / "conf.d", flags)
    assert (found.max_pods, found.authentication.webhook.cache_ttl) == (3, "9s")
    assert found.authentication.x509.client_ca_file == "/ca"
    with pytest.raises(Invalid, match="flags: port:"):
        load_configuration(None, None, {"port": -1})


@pytest.mark.parametrize(
    ("flags", "config", "expected"),
    [
        ((None, None), {}, ("info", "text")),
        ((None, None), {"verbosity": 0, "format": "json"}, ("info", "json")),
        ((None, None), {"verbosity": 5}, ("debug", "text")),
        (("warning", "text"), {"verbosity": 5, "format": "json"}, ("warning", "text")),
    ],
)
def test_log_settings_come_from_flags_or_configuration(
    flags: tuple[str | None, str | None], config: dict[str, object], expected: tuple[str, str]
) -> None:
    assert _log_settings(*flags, config) == expected


def test_version_output_is_readable_by_kubeadm() -> None:
    result = CliRunner().invoke(cli, ["run", "--version"])
    assert (result.exit_code, result.output) == (0, "Kubernetes v1.36.0\n")
