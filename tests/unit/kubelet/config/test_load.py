"""KubeletConfiguration files: defaults, drop-ins, and errors that name the field."""

import os
import subprocess
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid, Transient
from pykubelet.base.units import parse_duration
from pykubelet.kubelet.config import load_configuration, without_effect
from pykubelet.kubelet.config.load import configuration_files, located
from pykubelet.kubelet.reload.config_input import MISSING, stamp_of
from pykubelet.kubelet.reload.config_watch import _places

HEAD = "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n"


def write(path: Path, body: str, head: str = HEAD) -> Path:
    path.write_text(head + body)
    return path


def test_without_a_file_the_defaults_hold() -> None:
    config = load_configuration(None)
    assert (config.healthz_port, config.file_check_frequency, config.max_pods) == (10248, "20s", 110)
    assert config.cluster_dns == ()


def test_drop_ins_are_laid_over_the_file_in_the_order_of_their_names(tmp_path: Path) -> None:
    file = write(tmp_path / "config.yaml", "maxPods: 10\nauthentication:\n  x509: {clientCAFile: /ca}\n")
    (tmp_path / "d").mkdir()
    write(tmp_path / "d" / "20.conf", "maxPods: 30\n")
    write(tmp_path / "d" / "10.conf", "maxPods: 20\nauthentication:\n  anonymous: {enabled: true}\n")
    write(tmp_path / "d" / "ignored.txt", "maxPods: 99\n")
    config = load_configuration(file, tmp_path / "d")
    assert config.max_pods == 30
    assert config.authentication.x509.client_ca_file == "/ca"
    assert config.authentication.anonymous.enabled


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("maxPodss: 1\n", "config.yaml:3:1: maxPodss: unknown field (did you mean maxPods?)"),
        ("maxPods: 1\nMaxpods: 1\n", "config.yaml:4:1: Maxpods: unknown field (did you mean maxPods?)"),
        ("abc: 1\nxyz: 1\n", "config.yaml:3:1: abc: unknown field; "),
        ("abc: 1\nxyz: 1\n", "config.yaml:4:1: xyz: unknown field"),
        ("authentication: {x509: {file: a}}\n", "config.yaml:3:25: authentication.x509.file: unknown field"),
        (
            "registerWithTaints: [{key: a, effectt: b}]\n",
            "config.yaml:3:31: registerWithTaints[0].effectt: unknown field (did you mean effect?)",
        ),
        ("registerWithTaints:\n- key: 1\n", "config.yaml:4:3: registerWithTaints[0].key: expected `str`, got `int`"),
        ("maxPods: many\n", "maxPods: expected `int`, got `str`"),
        ("syncFrequency: 10\n", "syncFrequency: expected `str`, got `int`"),
        ("syncFrequency: ten\n", "syncFrequency: 'ten' is not a duration"),
        ("syncFrequency: -1s\n", "syncFrequency: must not be negative"),
        (
            "imagePullCredentialsVerificationPolicy: Never\n",
            "config.yaml:3:1: imagePullCredentialsVerificationPolicy: 'Never' is not known; use one of NeverVerify, ",
        ),
        (
            "preloadedImagesVerificationAllowlist: [r.io/a]\n",
            "can't set `preloadedImagesVerificationAllowlist` if `imagePullCredentialsVerificationPolicy` is not "
            '"NeverVerifyAllowlistedImages"',
        ),
        *(
            (
                "imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages\n"
                f"preloadedImagesVerificationAllowlist: [r.io/a, 'r.io/a/*', '{pattern}']\n",
                f"preloadedImagesVerificationAllowlist[2]: {message}",
            )
            for pattern, message in (
                (" r.io/a", "leading/trailing spaces are not allowed"),
                ("*", "not a valid wildcard pattern, only patterns ending with '/*' are allowed"),
                ("r.io/a*", "not a valid wildcard pattern"),
                ("/*", "at least registry hostname is required"),
                ("", "the supplied pattern is too short"),
                ("r.io/a:1", "neither tag nor digest is accepted in an image reference: r.io/a:1; write r.io/a"),
                (f"a@sha256:{'0' * 64}", "neither tag nor digest is accepted in an image reference"),
                ("A b", "failed to parse as an image name"),
            )
        ),
        ("healthzPort: 70000\n", "healthzPort: must be a port number"),
        ("tracing: {endpoint: collector}\n", "tracing.endpoint: 'collector' must be HOST:PORT or unix:///PATH"),
        ("tracing: {samplingRatePerMillion: 1000001}\n", "tracing.samplingRatePerMillion: must be from 0 to 1000000"),
        ("cgroupDriver: magic\n", "cgroupDriver: 'magic' is not known; use cgroupfs or systemd"),
        (
            "memorySwap: {swapBehavior: Lots}\n",
            "memorySwap.swapBehavior: 'Lots' is not known; use NoSwap or LimitedSwap",
        ),
        ("serializeImagePulls: true\nmaxParallelImagePulls: 3\n", "maxParallelImagePulls: cannot be over 1"),
        ("oomScoreAdj: -1001\n", "oomScoreAdj: must be from -1000 to 1000"),
        ("oomScoreAdj: 1001\n", "oomScoreAdj: must be from -1000 to 1000"),
        ("address: localhost\n", "address: 'localhost' is not an IP address"),
        ("maxPods: -1\n", "maxPods: must not be negative"),
        ("registryPullQPS: -1\n", "registryPullQPS: must not be negative"),
        ("eventBurst: -1\n", "eventBurst: must not be negative"),
        ("nodeStatusMaxImages: -2\n", "nodeStatusMaxImages: must be -1 (all) or more"),
        ("nodeLeaseDurationSeconds: -1\n", "nodeLeaseDurationSeconds: must be greater than 0"),
        ("healthzBindAddress: nowhere\n", "healthzBindAddress: 'nowhere' is not an IP address"),
        ("port: 10355\nreadOnlyPort: 10355\n", "readOnlyPort: must differ from port"),
        ("tlsCertFile: /a\n", "tlsPrivateKeyFile: must be set together with tlsCertFile"),
        ("authorization: {mode: RBAC}\n", "authorization.mode: 'RBAC' is not known"),
        (
            "crashLoopBackOff: {maxContainerRestartPeriod: soon}\n",
            "crashLoopBackOff.maxContainerRestartPeriod: 'soon' is not a duration",
        ),
        (
            "crashLoopBackOff: {maxContainerRestartPeriod: 301s}\n",
            "crashLoopBackOff.maxContainerRestartPeriod: must be from 1s to 300s",
        ),
        ("authentication: {webhook: {cacheTTL: -1s}}\n", "authentication.webhook.cacheTTL: must not be negative"),
        ("authentication: {webhook: {cacheTTL: 2}}\n", "authentication.webhook.cacheTTL: expected `str`"),
        ("authentication: {webhook: {cacheTTL: soon}}\n", "authentication.webhook.cacheTTL: 'soon' is not a duration"),
        (
            "shutdownGracePeriod: 10s\nshutdownGracePeriodCriticalPods: 20s\n",
            "config.yaml:4:1: shutdownGracePeriodCriticalPods: must be <= shutdownGracePeriod",
        ),
        ("shutdownGracePeriod: 900ms\n", "shutdownGracePeriod: must be either zero or otherwise >= 1 sec"),
        (
            "shutdownGracePeriod: 10s\nshutdownGracePeriodCriticalPods: 1ms\n",
            "shutdownGracePeriodCriticalPods: must be either zero or otherwise >= 1 sec",
        ),
        (
            "shutdownGracePeriod: 10s\n"
            "shutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: 5}]\n",
            "cannot specify both shutdownGracePeriodByPodPriority and shutdownGracePeriod at the same time",
        ),
        (
            "shutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: -5}]\n",
            "shutdownGracePeriodByPodPriority[0].shutdownGracePeriodSeconds: must not be negative",
        ),
        (
            "shutdownGracePeriodByPodPriority:\n"
            "- {priority: 1, shutdownGracePeriodSeconds: 5}\n- {priority: 1, shutdownGracePeriodSeconds: 6}\n",
            "shutdownGracePeriodByPodPriority[1].priority: 1 is there already",
        ),
        (
            "cpuCFSQuotaPeriod: 20ms\nfeatureGates: {CustomCPUCFSQuotaPeriod: false}\n",
            "cpuCFSQuotaPeriod: requires the feature gate CustomCPUCFSQuotaPeriod",
        ),
        (
            "crashLoopBackOff: {maxContainerRestartPeriod: 5s}\nfeatureGates: {AllBeta: false}\n",
            "crashLoopBackOff.maxContainerRestartPeriod: requires the feature gate KubeletCrashLoopBackOffMax",
        ),
        (
            "featureGates: {SidecarContainers: false, MemoryQos: true}\n",
            "featureGates: cannot set feature gate SidecarContainers to false, feature is locked to true",
        ),
        (
            "cpuCFSQuotaPeriod: 2s\n",
            "cpuCFSQuotaPeriod: must be from 1ms to 1s",
        ),
        (
            "memoryThrottlingFactor: 1.5\nfeatureGates: {MemoryQoS: true}\n",
            "memoryThrottlingFactor: must be greater than 0 and not greater than 1",
        ),
        ("memoryReservationPolicy: Some\n", "memoryReservationPolicy: 'Some' is not known; use None or TieredReser"),
        (
            "memoryReservationPolicy: TieredReservation\n",
            "memoryReservationPolicy: requires the feature gate MemoryQoS; add it to featureGates",
        ),
        ("memoryThrottlingFactor: .nan\n", "memoryThrottlingFactor: must be greater than 0"),
        ("imageMaximumGCAge: 2m\n", "imageMaximumGCAge: must be greater than imageMinimumGCAge, or 0s for no limit"),
        ("cpuCFSQuotaPeriod: soon\n", "cpuCFSQuotaPeriod: 'soon' is not a duration"),
        ("kubeReserved: {cpu: lots}\n", "kubeReserved.cpu: "),
        ("systemReserved: {cpu: '-1'}\n", "systemReserved.cpu: must not be negative"),
        ("enforceNodeAllocatable: [all]\n", "enforceNodeAllocatable: 'all' is not known"),
        ("enforceNodeAllocatable: [pods, pods]\n", "enforceNodeAllocatable: 'pods' is there twice"),
        ("enforceNodeAllocatable: [pods, none]\n", 'enforceNodeAllocatable: "none" excludes all others'),
        ("enforceNodeAllocatable: [kube-reserved]\n", "kubeReservedCgroup: must be set"),
        ("enforceNodeAllocatable: [kube-reserved]\nkubeReservedCgroup: /k\n", "kubeReserved: must be set"),
        ("systemReserved: {pids: '1000'}\n", "systemReserved.pids: cannot be reserved"),
        ("kubeReserved: {nvidia.com/gpu: '1'}\n", "kubeReserved.nvidia.com/gpu: cannot be reserved"),
        (
            "enforceNodeAllocatable: [system-reserved, system-reserved-compressible]\nsystemReservedCgroup: /a\n",
            "exclude each other",
        ),
        (
            "enforceNodeAllocatable: [system-reserved]\nsystemReservedCgroup: /a\ncgroupsPerQOS: false\n",
            "'system-reserved' needs cgroupsPerQOS: true",
        ),
        ("- a\n", "not YAML or JSON"),
    ],
)
def test_a_wrong_field_is_named_with_its_file(tmp_path: Path, body: str, message: str) -> None:
    file = write(tmp_path / "config.yaml", body)
    with pytest.raises(Invalid) as caught:
        load_configuration(file)
    assert str(file) in str(caught.value)
    assert message in str(caught.value)


def test_wrong_field_of_a_drop_in_names_its_file_and_line(tmp_path: Path) -> None:
    file = write(tmp_path / "config.yaml", "maxPods: 3\n")
    (tmp_path / "d").mkdir()
    wrong = write(tmp_path / "d" / "10.conf", "maxPods: many\n")
    with pytest.raises(Invalid, match=f"^{wrong}:3:1: maxPods: expected `int`"):
        load_configuration(file, tmp_path / "d")
    with pytest.raises(Invalid, match=r"^flags: nothing: unknown field$"):
        load_configuration(None, None, {"nothing": 1})


@pytest.mark.parametrize("head", ["kind: Pod\napiVersion: v1\n", "kind: KubeletConfiguration\napiVersion: v1\n"])
def test_another_kind_is_refused(tmp_path: Path, head: str) -> None:
    with pytest.raises(Invalid, match="must be"):
        load_configuration(write(tmp_path / "c.yaml", "", head))


def test_many_zeros_that_are_no_duration_are_refused(tmp_path: Path) -> None:
    """A search for all ways to read them as parts of a duration would take years."""
    file = tmp_path / "config.yaml"
    kind = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    file.write_text(f'{kind}syncFrequency: "{"0" * 64}x"\n')
    with pytest.raises(Invalid, match="syncFrequency"):
        load_configuration(file)


def test_missing_files_and_directories_are_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="nowhere"):
        load_configuration(tmp_path / "nowhere")
    with pytest.raises(Invalid, match="drop-in directory"):
        load_configuration(None, tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("0s", 0), ("20s", 20), ("1m30s", 90), ("250ms", 0.25), ("1.5h", 5400), ("-1s", -1), ("10us", 1e-5)],
)
def test_duration_text_is_parsed_to_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "s", "1 s", "1d", "1h-3m", "1e3s", "١s"])
def test_text_that_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="not a duration"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["2562048h", f"{'9' * 400}s", f"-{'9' * 5000}h"])
def test_duration_that_go_cannot_hold_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="too long"):
        parse_duration(text)
    assert parse_duration("2562047h") == 2562047 * 3600


def test_allowlist_names_images_as_pods_do(tmp_path: Path) -> None:
    """As for the Go kubelet, a short name is a name."""
    allowed = ["busybox", "team/app", "docker.io/library/busybox", "r.io/*"]
    policy = "imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages\n"
    body = f"{policy}preloadedImagesVerificationAllowlist: {allowed}\n"
    found = load_configuration(write(tmp_path / "c.yaml", body))
    assert list(found.preloaded_images_verification_allowlist) == allowed


def test_fields_without_effect_are_reported(tmp_path: Path) -> None:
    file = write(tmp_path / "c.yaml", "kubeletCgroups: /a\npodPidsLimit: 5\nstreamingConnectionIdleTimeout: 1h\n")
    assert without_effect(load_configuration(file)) == ["streamingConnectionIdleTimeout", "kubeletCgroups"]
    assert without_effect(load_configuration(None)) == []


@pytest.mark.parametrize(("more", "idle"), [("", ["staticPodURLHeader"]), ("staticPodURL: http://h/pods\n", [])])
def test_headers_without_a_url_are_reported_and_not_refused(tmp_path: Path, more: str, idle: list[str]) -> None:
    """Upstream starts with them, and drop-ins may name them before another one names the URL."""
    file = write(tmp_path / "c.yaml", "staticPodURLHeader: {Authorization: [token]}\n" + more)
    assert without_effect(load_configuration(file)) == idle


KUBEADM = """\
authentication:
  anonymous: {enabled: false}
  webhook: {cacheTTL: 0s, enabled: true}
  x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}
authorization:
  mode: Webhook
  webhook: {cacheAuthorizedTTL: 0s, cacheUnauthorizedTTL: 0s}
cgroupDriver: systemd
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix:///run/pykubelet/criserver/criserver.sock
cpuManagerReconcilePeriod: 0s
crashLoopBackOff: {}
evictionPressureTransitionPeriod: 0s
fileCheckFrequency: 0s
healthzBindAddress: 127.0.0.1
healthzPort: 10248
httpCheckFrequency: 0s
imageMaximumGCAge: 0s
imageMinimumGCAge: 0s
logging:
  flushFrequency: 0
  options: {json: {infoBufferSize: "0"}, text: {infoBufferSize: "0"}}
  verbosity: 0
memorySwap: {}
nodeStatusReportFrequency: 0s
nodeStatusUpdateFrequency: 0s
rotateCertificates: true
runtimeRequestTimeout: 0s
shutdownGracePeriod: 0s
shutdownGracePeriodCriticalPods: 0s
staticPodPath: /etc/kubernetes/manifests
streamingConnectionIdleTimeout: 0s
syncFrequency: 0s
volumeStatsAggPeriod: 0s
"""


def test_the_file_that_kubeadm_writes_sets_only_what_it_means_to(tmp_path: Path) -> None:
    """It contains all durations; those that are not set are zero."""
    found = load_configuration(write(tmp_path / "config.yaml", KUBEADM))
    default = load_configuration(None)
    changed = {name for name in found.__struct_fields__ if getattr(found, name) != getattr(default, name)}
    assert changed == {
        *("authentication", "cgroup_driver", "cluster_dns", "cluster_domain", "container_runtime_endpoint"),
        *("logging", "rotate_certificates", "static_pod_path"),
    }
    assert found.authentication.webhook == default.authentication.webhook
    assert found.authorization == default.authorization


@pytest.mark.parametrize(
    ("body", "report"), [("nodeStatusUpdateFrequency: 3s\n", "3s"), ("nodeStatusUpdateFrequency: 0m0s\n", "5m")]
)
def test_a_status_is_reported_as_often_as_it_is_looked_at_unless_configured_otherwise(
    tmp_path: Path, body: str, report: str
) -> None:
    assert load_configuration(write(tmp_path / "c.yaml", body)).node_status_report_frequency == report


def test_feature_that_zero_switches_off_stays_off(tmp_path: Path) -> None:
    body = "port: 0\nhealthzPort: 0\nregistryPullQPS: 0\ncgroupsPerQOS: false\nimageMaximumGCAge: 0s\n"
    found = load_configuration(write(tmp_path / "c.yaml", body))
    assert (found.port, found.healthz_port, found.registry_pull_qps, found.cgroups_per_qos) == (0, 0, 0, False)


def test_error_of_a_component_gets_the_place_of_its_field(tmp_path: Path) -> None:
    file, drop_ins = tmp_path / "config.yaml", tmp_path / "conf.d"
    drop_ins.mkdir()
    file.write_text(f"{HEAD}evictionHard:\n  memory.available: abc\n")
    places = {
        "evictionHard[memory.available]: wrong": f"{file}:3:",
        "evictionHard: wrong": f"{file}:3:",
        "port: not in a file": "port: not in a file",
        "disk full": "disk full",
        "evil: no field": "evil: no field",
    }
    for text, wanted in places.items():
        assert str(located(Invalid(text), file, drop_ins)).startswith(wanted)
    (drop_ins / "a.conf").write_text(f"{HEAD}\nevictionHard: {{}}\n")
    assert str(located(Invalid("evictionHard: wrong"), file, drop_ins)).startswith(f"{drop_ins}/a.conf:4:")
    file.unlink()
    assert str(located(Invalid("evictionHard: wrong"), file, drop_ins)) == "evictionHard: wrong"


def test_pipe_device_directory_and_huge_file_are_refused_at_once(tmp_path: Path) -> None:
    pipe, huge = tmp_path / "pipe", tmp_path / "huge"
    os.mkfifo(pipe)
    with huge.open("wb") as file:
        file.truncate(1 << 40)
    for path, wanted in (
        (pipe, "is a pipe, socket or device"),
        (Path("/dev/zero"), "is a pipe, socket or device"),
        (tmp_path, "is a directory"),
        (huge, "larger than 1 MiB"),
        (tmp_path / "none", "the file does not exist"),
    ):
        with pytest.raises(Invalid) as caught:
            load_configuration(path)
        assert str(caught.value).startswith(f"{path}: {wanted}")


def test_too_many_drop_in_files_are_refused(tmp_path: Path) -> None:
    for number in range(257):
        write(tmp_path / f"{number}.conf", "")
    with pytest.raises(Invalid, match="has 257 drop-in files, at most 256 are read"):
        load_configuration(None, tmp_path)
    (tmp_path / "0.conf").unlink()
    os.mkfifo(tmp_path / "pipe.conf")
    (tmp_path / ".#1.conf").symlink_to("user@host.1")
    assert len(configuration_files(None, tmp_path)) == 256


def test_directories_that_are_nested_too_deeply_are_refused(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    try:
        with pytest.raises(Invalid, match="nested too deeply"):
            load_configuration(None, tmp_path)
        with pytest.raises(Transient, match="nested too deeply"):
            _places(None, tmp_path)
        assert stamp_of(None, tmp_path) == MISSING
    finally:
        subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)
