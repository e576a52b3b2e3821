# ruff: noqa: E501 - tables, one case a line
"""From value trees to typed objects: every problem at once, each with path, line and remedy."""

from datetime import UTC, datetime

import pytest

from pykubelet.kubelet.desired.manifest.manifest_types import Finding, Report
from pykubelet.kubelet.desired.manifest.tree import ScalarNode, read_documents
from pykubelet.kubelet.desired.manifest.walk import TooLargeError, Walker, plain_value
from pykubelet.models import coordination_v1 as coordination
from pykubelet.models import core_v1 as core
from pykubelet.models.scalars import KubeStruct, MicroTime


def walk(text: str, model: type[KubeStruct] = core.Pod, budget: int = 100_000) -> tuple[KubeStruct | None, Walker]:
    report = Report("f.yaml")
    (document,) = read_documents(text.encode(), report)
    assert report.problems == []
    walker = Walker(budget)
    return walker.read_object(document.root, model), walker


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("NULL", None),
        ("nuLL", "nuLL"),
        ("true", True),
        ("Yes", True),
        ("on", True),
        ("off", False),
        ("NO", False),
        ("y", "y"),
        ("n", "n"),
        ("5", 5),
        ("-5", -5),
        ("+5", 5),
        ("0", 0),
        ("-0", 0),
        ("1_000", 1000),
        ("0644", 0o644),
        ("0o644", 0o644),
        ("-010", -8),
        ("0x1F", 31),
        ("0b101", 5),
        ("0x", "0x"),
        ("0x_", "0x_"),
        ("0_", 0.0),
        ("08", 8.0),
        ("1.5", 1.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e3", 1000.0),
        ("1e400", float("inf")),
        ("1:30", "1:30"),
        ("2001-01-01", "2001-01-01"),
        (".inf", ".inf"),
        ("1.2.3", "1.2.3"),
        ("-", "-"),
        ("１", "１"),
        ("9" * 100, float("inf")),
    ],
)
def test_scalars_as_kubernetes_reads_them(text: str, value: object) -> None:
    read = plain_value(ScalarNode(text, plain=True))
    assert read == value
    assert type(read) is type(value)
    assert plain_value(ScalarNode(text, plain=False)) == text
    assert plain_value(ScalarNode(text, plain=True, tag="tag:yaml.org,2002:str")) == text


def test_complete_pod_is_read() -> None:
    pod, walker = walk(
        """
metadata: {name: web, creationTimestamp: null, labels: {app: web}, annotations: {empty: }}
spec:
  hostNetwork: yes
  terminationGracePeriodSeconds: 1e1
  containers:
  - name: c
    ports: [{containerPort: 80}]
    env: [{name: A, value: "5"}, {name: B, value: null}]
    livenessProbe: {httpGet: {port: web}, tcpSocket: {port: 80}}
    resources: {limits: {cpu: 1.50, memory: 1.5Gi, x.io/y: "3"}}
  volumes: [{name: v, configMap: {name: c, defaultMode: 0444}}]
"""
    )
    assert walker.findings == []
    assert isinstance(pod, core.Pod)
    assert pod.metadata.annotations == {"empty": ""}
    assert pod.spec.host_network is True
    assert pod.spec.termination_grace_period_seconds == 10
    container = pod.spec.containers[0]
    assert container.ports == (core.ContainerPort(container_port=80),)
    assert container.env == (core.EnvVar(name="A", value="5"), core.EnvVar(name="B"))
    assert container.liveness_probe is not None
    assert container.liveness_probe.http_get == core.HTTPGetAction(port="web")
    assert container.liveness_probe.tcp_socket == core.TCPSocketAction(port=80)
    assert container.resources is not None
    assert container.resources.limits == {"cpu": "1500m", "memory": "1536Mi", "x.io/y": "3"}
    assert pod.spec.volumes[0].config_map == core.ConfigMapVolumeSource(name="c", default_mode=0o444)


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("spce: {}", Finding("spce", "unknown field", "did you mean spec?")),
        ("Spec: {}", Finding("Spec", "unknown field", "did you mean spec?")),
        ("spec: {containers: [{imagee: x}]}", Finding("spec.containers[0].imagee", "unknown field", "did you mean image?")),
        ("spec: {os: {zzz: 1}}", Finding("spec.os.zzz", "unknown field", "the fields here are name")),
        ("spec: {qqqqqqqq: 1}", Finding("spec.qqqqqqqq", "unknown field", "is it in the right place?")),
        ("spec: {hostname: 5}", Finding("spec.hostname", "must be text, not the number 5", 'quote it: "5"')),
        ("spec: {hostname: on}", Finding("spec.hostname", "must be text, not the truth value on", 'quote it: "on"')),
        ("spec: {hostname: [a]}", Finding("spec.hostname", "must be text, not a list")),
        ("spec: {hostname: {a: b}}", Finding("spec.hostname", "must be text, not a mapping")),
        ('spec: {hostname: "a\\0b"}', Finding("spec.hostname", "contains a NUL character", "take it away; programs cannot take it as text")),
        ("spec: {hostname: !x y}", Finding("spec.hostname", "has the tag '!x', which is not used here", "take the tag away")),
        ("spec: {priority: abc}", Finding("spec.priority", "must be a whole number, not the text 'abc'")),
        ('spec: {priority: "5"}', Finding("spec.priority", "must be a whole number, not the text '5'", "take the quotes away")),
        ("spec: {priority: 1.5}", Finding("spec.priority", "must be a whole number, not the number 1.5")),
        ("spec: {priority: true}", Finding("spec.priority", "must be a whole number, not the truth value true")),
        ("spec: {priority: 9223372036854775808}", Finding("spec.priority", "'9223372036854775808' is too large", "the API keeps 64 bits")),
        ('spec: {hostNetwork: "true"}', Finding("spec.hostNetwork", "must be true or false, not the text 'true'", "take the quotes away")),
        ("spec: {hostNetwork: 1}", Finding("spec.hostNetwork", "must be true or false, not the number 1")),
        ("spec: {containers: {name: x}}", Finding("spec.containers", "must be a list, not a mapping", "begin each item with '- '")),
        ("spec: {containers: x}", Finding("spec.containers", "must be a list, not the text 'x'", "begin each item with '- '")),
        ("spec: {containers: [null]}", Finding("spec.containers[0]", "is empty", "take the item away, or fill it in")),
        ("spec: []", Finding("spec", "must be a mapping of fields, not a list", "take the '-' away")),
        ("spec: x", Finding("spec", "must be a mapping of fields, not the text 'x'", "indent the fields below it")),
        ("metadata: {labels: [a]}", Finding("metadata.labels", "must be a mapping of names to values, not a list")),
        ("metadata: {labels: {a: 1}}", Finding("metadata.labels[a]", "must be text, not the number 1", 'quote it: "1"')),
        ("metadata: {creationTimestamp: noon}", Finding("metadata.creationTimestamp", "'noon' is not a time", "write it like 2006-01-02T15:04:05Z")),
        ("metadata: {creationTimestamp: 2006-01-02T15:04:05}", Finding("metadata.creationTimestamp", "'2006-01-02T15:04:05' has no time zone", "end it with Z")),
        ("spec: {containers: [{ports: [{name: x}]}]}", Finding("spec.containers[0].ports[0].containerPort", "is required")),
        ("spec: {containers: [{ports: [{containerPort: x}]}]}", Finding("spec.containers[0].ports[0].containerPort", "must be a whole number, not the text 'x'")),
        ("spec: {containers: [{livenessProbe: {tcpSocket: {port: 1.5}}}]}", Finding("spec.containers[0].livenessProbe.tcpSocket.port", "must be a whole number, not the number 1.5")),
    ],
)  # fmt: skip
def test_each_problem_is_reported(text: str, finding: Finding) -> None:
    _, walker = walk(text)
    assert walker.findings == [finding]


def test_a_bad_quantity_names_what_is_possible() -> None:
    _, walker = walk("spec: {containers: [{resources: {limits: {memory: 1Gii}}}]}")
    (finding,) = walker.findings
    assert finding.field == "spec.containers[0].resources.limits[memory]"
    assert finding.message == "'1Gii' is not a quantity"
    assert "Ki, Mi, Gi, Ti" in finding.remedy


def test_values_of_secrets_are_never_shown() -> None:
    _, walker = walk("stringData: {a: 12345, b: [hunter2], c: yes}\ndata: {d: 'hunter2!'}", core.Secret)
    assert [finding.field for finding in walker.findings] == [
        "stringData[a]",
        "stringData[b]",
        "stringData[c]",
        "data[d]",
    ]
    shown = " ".join(f"{finding.message} {finding.remedy}" for finding in walker.findings)
    assert "12345" not in shown
    assert "hunter2" not in shown


def test_base64_may_be_folded() -> None:
    secret, walker = walk("data:\n  a: |\n    AAEC\n    Aw==\n", core.Secret)
    assert walker.findings == []
    assert secret == core.Secret(data={"a": b"\x00\x01\x02\x03"})


def test_times_and_raw_objects() -> None:
    lease, walker = walk('spec: {renewTime: "2020-01-02T03:04:05.678901Z"}', coordination.Lease)
    assert walker.findings == []
    assert lease == coordination.Lease(
        spec=coordination.LeaseSpec(renew_time=MicroTime(2020, 1, 2, 3, 4, 5, 678901, tzinfo=UTC))
    )
    pod, walker = walk(
        "metadata: {creationTimestamp: 2020-01-02T03:04:05Z, managedFields: [{fieldsV1: {a: [1, x, null, {b: 0x10}]}}]}"
    )
    assert walker.findings == []
    assert isinstance(pod, core.Pod)
    assert pod.metadata.creation_timestamp == datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert pod.metadata.managed_fields[0] == {"fieldsV1": {"a": [1, "x", None, {"b": 16}]}}


def test_lines_are_kept_for_every_field() -> None:
    _, walker = walk("metadata:\n  name: a\nspec:\n  containers:\n  - name: x\n    image: y\n")
    assert walker.lines["metadata.name"] == (2, 3)
    assert walker.lines["spec.containers[0]"] == (5, 5)
    assert walker.lines["spec.containers[0].image"] == (6, 5)


def test_aliases_count_as_often_as_they_are_used() -> None:
    bomb = "metadata:\n  labels: &a {a: x}\n  managedFields:\n  - fieldsV1:\n      l0: &l0 [x, x]\n"
    for level in range(1, 30):
        bomb += f"      l{level}: &l{level} [*l{level - 1}, *l{level - 1}]\n"
    with pytest.raises(TooLargeError):
        walk(bomb)


def test_surrogates_from_json_are_refused() -> None:
    _, walker = walk('{"a\\ud83d": 1, "spec": {"hostname": "x\\ud83dy"}}')
    assert any(finding.message == "contains half of a surrogate pair" for finding in walker.findings)
