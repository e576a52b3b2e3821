"""Values of single fields that could never take effect are refused, with their file and line."""

from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.config import load_configuration

_HEAD = "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("clusterDNS: [10.0.0.1, dns]", "3:24: clusterDNS[1]: 'dns' is not an IP address"),
        (r'clusterDomain: "a\nb"', "3:1: clusterDomain: must not contain line breaks or NUL"),
        ("clusterDomain: a b", "3:1: clusterDomain: 'a b' is not a domain"),
        ("userNamespaces: {idsPerPod: 5}", "3:18: userNamespaces.idsPerPod: must be a multiple of 65536"),
        ("userNamespaces: {idsPerPod: 0}", "userNamespaces.idsPerPod: must be a multiple of 65536"),
        ("userNamespaces: {idsPerPod: 4294967296}", "userNamespaces.idsPerPod: must be a multiple of 65536"),
        ("staticPodPath: manifests", "3:1: staticPodPath: 'manifests' must be an absolute path"),
        ("resolvConf: resolv.conf", "resolvConf: 'resolv.conf' must be an absolute path"),
        ("tlsCertFile: a\ntlsPrivateKeyFile: b", "4:1: tlsPrivateKeyFile: 'b' must be an absolute path"),
        (
            "authentication: {x509: {clientCAFile: ca}}",
            "authentication.x509.clientCAFile: 'ca' must be an absolute",
        ),
        ("podLogsDir: logs", "podLogsDir: 'logs' must be an absolute path"),
        ("podLogsDir: /a/../b", "podLogsDir: '/a/../b' must be normalized"),
        ("podLogsDir: /a/", "podLogsDir: '/a/' must be normalized"),
        ("podLogsDir: /ä", "podLogsDir: '/ä' must contain ASCII characters only"),
        (r'cgroupRoot: "/a\0"', "cgroupRoot: must not contain line breaks or NUL"),
        (
            r'authentication: {x509: {clientCAFile: "/a\0"}}',
            "authentication.x509.clientCAFile: must not contain",
        ),
        ("staticPodURL: ftp://h/p", "3:1: staticPodURL: 'ftp://h/p' cannot be read from; write http://HOST"),
        ("staticPodURL: /etc/pods", "staticPodURL: '/etc/pods' cannot be read from"),
        ("staticPodURL: 'http:///p'", "staticPodURL: 'http:///p' cannot be read from"),
        ("staticPodURL: 'http://h:x/p'", "staticPodURL: 'http://h:x/p' cannot be read from"),
        ("staticPodURL: 'http://me:pa55word@h:x/p'", "staticPodURL: 'h:x/p' cannot be read from"),
        ("staticPodURL: 'http://h/a b'", "staticPodURL: 'http://h/a b' cannot be read from"),
        (
            "staticPodURL: http://h\nstaticPodURLHeader: {'a b': [c]}",
            "staticPodURLHeader: 'a b' is not the name",
        ),
        (
            'staticPodURL: http://h\nstaticPodURLHeader: {a: ["b\\r\\nc: d"]}',
            "staticPodURLHeader.a[0]: must not",
        ),
        ("logging: {format: xml}", "3:11: logging.format: 'xml' is not known; use text or json"),
        ("logging: {verbosity: -5}", "logging.verbosity: -5 must be an integer that is not negative"),
        ("logging: {verbosity: high}", "logging.verbosity: 'high' must be an integer that is not negative"),
        ("logging: {verbosity: true}", "logging.verbosity: True must be an integer that is not negative"),
        ("logging: {verbose: 4}", "3:11: logging.verbose: unknown field (did you mean verbosity?)"),
        ("logging: {flushFrequency: soon}", "logging.flushFrequency: 'soon' is not a duration"),
        ("logging: {flushFrequency: -1s}", "logging.flushFrequency: must not be negative"),
        ("logging: {flushFrequency: [1]}", "logging.flushFrequency: must be a duration"),
        ("logging: {options: [a]}", "logging.options: must be an object"),
        (
            "logging: {format: json, vmodule: [{filePattern: a, verbosity: 2}]}",
            "logging.vmodule: needs logging.format: text",
        ),
        ("podPidsLimit: -2", "3:1: podPidsLimit: must be -1 (no limit) or more"),
        ("podPidsLimit: 9223372036854775808", "podPidsLimit: must be an integer of 64 bits"),
        ("maxPods: 2147483648", "3:1: maxPods: must be an integer of 32 bits, at most 2147483647"),
        (
            "shutdownGracePeriodByPodPriority: [{priority: 3000000000, shutdownGracePeriodSeconds: 5}]",
            "shutdownGracePeriodByPodPriority[0].priority: must be an integer of 32 bits",
        ),
        ("evictionMaxPodGracePeriod: -1", "3:1: evictionMaxPodGracePeriod: must not be negative"),
        ("maxOpenFiles: -1", "maxOpenFiles: must not be negative"),
        ("runOnce: true", "runOnce: the mode does not exist; use the command pykubelet run-once"),
        (
            "enableSystemLogQuery: true\nenableSystemLogHandler: false",
            "enableSystemLogQuery: needs enableSystem",
        ),
        ("hairpinMode: loop", "hairpinMode: 'loop' is not known; use promiscuous-bridge, hairpin-veth, none"),
        ("topologyManagerPolicy: all", "topologyManagerPolicy: 'all' is not known"),
        ("topologyManagerScope: node", "topologyManagerScope: 'node' is not known; use container, pod"),
        ("cpuManagerPolicy: all", "cpuManagerPolicy: 'all' is not known; use none, static"),
        ("memoryManagerPolicy: none", "memoryManagerPolicy: 'none' is not known; use None, Static"),
        ("iptablesDropBit: 32", "iptablesDropBit: must be from 0 to 31"),
        ("iptablesMasqueradeBit: -1", "iptablesMasqueradeBit: must be from 0 to 31"),
        ("reservedSystemCPUs: 1-", "reservedSystemCPUs: '1-' is not a list of CPUs"),
        (
            "reservedSystemCPUs: 0,2-3\nkubeReservedCgroup: /k",
            "reservedSystemCPUs: cannot be used with",
        ),
        ("systemCgroups: /s", "systemCgroups: needs cgroupRoot"),
        *(
            (f"{field}: 1ns", f"3:1: {field}: must be at least 10ms")
            for field in (
                *("fileCheckFrequency", "httpCheckFrequency", "nodeStatusUpdateFrequency", "nodeStatusReportFrequency"),
                *("syncFrequency", "volumeStatsAggPeriod", "runtimeRequestTimeout"),
            )
        ),
    ],
)
def test_value_that_cannot_take_effect_is_refused_with_its_place(tmp_path: Path, body: str, message: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"{_HEAD}{body}\n")
    with pytest.raises(Invalid) as caught:
        load_configuration(file)
    assert message in str(caught.value)
    assert f"{file}:" in str(caught.value)


def test_usual_values_pass(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        f"""{_HEAD}
clusterDNS: [10.96.0.10, "fd00::a"]
clusterDomain: cluster.local.
userNamespaces: {{idsPerPod: 131072}}
resolvConf: ""
staticPodURL: https://user@host:8443/pods?a=b
staticPodURLHeader: {{X-Token: ["a b", "c"]}}
logging: {{format: json, flushFrequency: 5000000000, verbosity: 4, options: {{json: {{infoBufferSize: "0"}}}}}}
podPidsLimit: 4194304
reservedSystemCPUs: 0-1,3
volumeStatsAggPeriod: 0s
maxOpenFiles: 5000000000
"""
    )
    assert load_configuration(file).cluster_domain == "cluster.local."
