# ruff: noqa: E501 - tables, one case a line
"""Manifests as a whole: kinds, lists, several documents, which objects are given and what is said."""

import json
import sys

import pytest

from pykubelet.kubelet.desired.manifest import Manifest, parse
from pykubelet.kubelet.desired.manifest.manifest_types import MAX_PROBLEMS, ObjectKey
from pykubelet.models import core_v1 as core

POD = """
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  containers: [{name: c, image: busybox}]
"""


def read(text: str) -> Manifest:
    return parse(text.encode(), "dir/f.yaml")


def keys(manifest: Manifest) -> list[str]:
    return [str(item.key) for item in manifest.objects]


def test_documents_of_all_kinds_are_parsed_with_their_lines() -> None:
    manifest = read(
        POD % "a"
        + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: x}\ndata: {k: v}\n"
        + "---\napiVersion: v1\nkind: Secret\nmetadata: {name: c}\nstringData: {k: v}\ndata: {k: AAAA, l: AAAA}\n"
    )
    assert manifest.problems == ()
    assert keys(manifest) == ["Pod default/a", "ConfigMap x/b", "Secret default/c"]
    assert [item.line for item in manifest.objects] == [2, 8, 13]
    secret = manifest.objects[2].value
    assert isinstance(secret, core.Secret)
    assert secret.data == {"k": b"v", "l": b"\0\0\0"}
    assert secret.string_data == {}
    assert secret.metadata.namespace == "default"
    assert [pod.metadata.name for pod in manifest.pods] == ["a"]


@pytest.mark.parametrize("kind", ["List", "PodList"])
def test_lists_give_their_items(kind: str) -> None:
    item = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    other = item | {"metadata": {"name": "b"}}
    if kind == "PodList":
        del other["apiVersion"], other["kind"]
    manifest = read(json.dumps({"apiVersion": "v1", "kind": kind, "metadata": {}, "items": [item, other]}))
    assert manifest.problems == ()
    assert keys(manifest) == ["Pod default/a", "Pod default/b"]


def test_empty_list_is_valid_and_without_pods() -> None:
    for items in ("[]", "null"):
        assert read(f"{{apiVersion: v1, kind: PodList, items: {items}}}") == Manifest("dir/f.yaml")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("kind: Pod", "dir/f.yaml:1:1: apiVersion: is required; write apiVersion: v1"),
        ("apiVersion: v1", "dir/f.yaml:1:1: kind: is required; write kind: Pod, ConfigMap or Secret"),
        ("apiVersion: v1\nkind: pod", "dir/f.yaml:2:1: kind: 'pod' is not for a node; did you mean Pod?"),
        ("apiVersion: apps/v1\nkind: Deployment", "dir/f.yaml:2:1: kind: 'Deployment' is not for a node; write a Pod (apiVersion: v1, kind: Pod) with a name and the spec of its spec.template; for several replicas, Pods with different names"),
        ("apiVersion: batch/v1\nkind: CronJob", "dir/f.yaml:2:1: kind: 'CronJob' is not for a node; write a Pod (apiVersion: v1, kind: Pod) with a name and the spec of its spec.jobTemplate.spec.template, and restartPolicy: Never; start it with a timer of the system"),
        ("apiVersion: v1\nkind: PersistentVolumeClaim", "dir/f.yaml:2:1: kind: 'PersistentVolumeClaim' is not for a node; take it away, and mount a hostPath or an emptyDir volume instead of the claim"),
        ("apiVersion: acme.io/v1\nkind: Widget", "dir/f.yaml:2:1: kind: 'Widget' is not for a node; a node runs Pods, with ConfigMaps and Secrets"),
        ("version: '3'\nservices:\n  web: {image: nginx}", "dir/f.yaml:2:1: services: this is a Compose file, which holds no Kubernetes objects; convert it with: kompose convert -f FILE; services with restart: on-failure become Pods, and others Deployments, whose spec.template is the Pod to write"),
        ("services: []", "dir/f.yaml:1:1: kind: is required; write kind: Pod, ConfigMap or Secret"),
        ("resources: [a.yaml]", "dir/f.yaml:1:1: resources: this is a kustomization, which only names files; print its objects with: kubectl kustomize DIRECTORY"),
        ("apiVersion: v1\nkind: Service", "dir/f.yaml:2:1: kind: 'Service' is not for a node; a node has no Services: give the container a hostPort, or use pykubelet port-forward"),
        ("apiVersion: v2\nkind: Pod", "dir/f.yaml:1:1: apiVersion: 'v2' has no Pod; write apiVersion: v1"),
        ("- a", "dir/f.yaml:1:1: must be a Kubernetes object: a mapping with apiVersion, kind and metadata"),
        ("hello", "dir/f.yaml:1:1: must be a Kubernetes object: a mapping with apiVersion, kind and metadata"),
        ("apiVersion: v1\nkind: List\nitems: {}", "dir/f.yaml:3:1: items: must be a list; begin each item with '- '"),
        ("apiVersion: v1\nkind: List\nitem: []", "dir/f.yaml:3:1: item: unknown field"),
        ("apiVersion: v1\nkind: List\nitems: [5]", "dir/f.yaml:3:9: items[0]: must be a Kubernetes object: a mapping with apiVersion, kind and metadata"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: A}", "dir/f.yaml:3:12: ConfigMap default/A: metadata.name: 'A' is no DNS subdomain; use lower-case letters, digits, '-' and '.', a letter or digit at both ends of each part"),
    ],
)  # fmt: skip
def test_problem_is_shown_with_place_and_remedy(text: str, shown: str) -> None:
    manifest = read(text)
    assert [str(problem) for problem in manifest.problems] == [shown]
    assert manifest.objects == ()


def test_invalid_object_does_not_affect_others() -> None:
    manifest = read(POD % "a" + "---" + POD % "B" + "---" + POD % "c")
    assert keys(manifest) == ["Pod default/a", "Pod default/c"]
    assert [(problem.object, problem.document, problem.line) for problem in manifest.problems] == [
        ("Pod default/B", 2, 10)
    ]


def test_all_problems_of_an_object_are_reported_in_order_of_lines() -> None:
    manifest = read(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  restartPolicy: Maybe\n  hostNetwrk: true\n"
        "  containers:\n  - name: X\n    imagee: y\n    volumeMounts:\n    - {name: v, mountPath: rel}\n"
    )
    assert [(problem.line, problem.field) for problem in manifest.problems] == [
        (5, "spec.restartPolicy"),
        (6, "spec.hostNetwrk"),
        (8, "spec.containers[0].name"),
        (9, "spec.containers[0].imagee"),
        (11, "spec.containers[0].volumeMounts[0].name"),
        (11, "spec.containers[0].volumeMounts[0].mountPath"),
    ]


def test_problems_of_one_line_are_reported_in_order_of_columns() -> None:
    manifest = read(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: Bad_Name, zzz: 1, labels: {'a b': 'c', ok: 3}}\n"
        "spec: {containers: [{name: A, imagee: x, ports: [{containerPort: 99999, foo: 1}]}]}\n"
    )
    assert [problem.field for problem in manifest.problems] == [
        "metadata.name",
        "metadata.zzz",
        "metadata.labels[a b]",
        "metadata.labels[ok]",
        "spec.containers[0].name",
        "spec.containers[0].imagee",
        "spec.containers[0].ports[0].containerPort",
        "spec.containers[0].ports[0].foo",
    ]


def test_a_misspelt_field_is_not_reported_as_missing_too() -> None:
    manifest = read(POD.replace("image:", "img:") % "a")
    assert [problem.field for problem in manifest.problems] == ["spec.containers[0].img"]


def test_an_object_with_a_doubled_key_is_not_used() -> None:
    manifest = read(POD % "a" + "  restartPolicy: Always\n  restartPolicy: Never\n" + "---" + POD % "b")
    assert keys(manifest) == ["Pod default/b"]
    assert [problem.line for problem in manifest.problems] == [8]


def test_duplicate_name_in_one_file_is_a_problem() -> None:
    manifest = read(POD % "a" + "---" + POD % "a")
    assert keys(manifest) == ["Pod default/a"]
    assert "is given twice in this file, first on line 2" in manifest.problems[0].message


def test_alias_bomb_is_reported_and_the_rest_of_the_file_used() -> None:
    bomb = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  managedFields:\n  - fieldsV1:\n      l0: &l0 [x, x, x, x]\n"
    for level in range(1, 15):
        bomb += f"      l{level}: &l{level} [*l{level - 1}, *l{level - 1}, *l{level - 1}, *l{level - 1}]\n"
    manifest = read(POD % "a" + "---\n" + bomb)
    assert keys(manifest) == ["Pod default/a"]
    assert "once its aliases are written out" in manifest.problems[0].message


def test_problems_are_capped() -> None:
    manifest = read(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n" + "".join(f"  k{i}: {i}\n" for i in range(300))
    )
    assert len(manifest.problems) == MAX_PROBLEMS
    assert ["more problems than can be shown" in problem.message for problem in manifest.problems].index(True) == 99


def test_digest_depends_on_content_not_on_form() -> None:
    text = POD % "a"
    reordered = "kind: Pod\nspec: {containers: [{image: 'busybox', name: c}]}\nmetadata: {name: a}\napiVersion: v1\nstatus: {phase: Running}"
    commented = "# a comment\n" + text
    (first,), (second,), (third,) = (read(each).objects for each in (text, reordered, commented))
    assert first.digest == second.digest == third.digest
    (other,) = read(text.replace("busybox", "busybox:1")).objects
    assert other.digest != first.digest


def test_the_digest_does_not_depend_on_defaults() -> None:
    """A uid, and with it a running container, must survive a release that fills in one default more."""
    (item,) = read(POD % "a").objects
    assert item.key == ObjectKey("Pod", "default", "a")
    assert item.digest == "e2a4c1f9d4f45f500a32d34a5902f0b075f883c2c9cc9fbef1d396c829315ca7"


SURROGATES = [
    ('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", '
     '"image": "i", "env": [{"name": "X", "value": "\\ud800"}]}]}}', "spec.containers[0].env[0].value"),
    ('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"x\\udfff": "y"}}, "spec": '
     '{"containers": [{"name": "c", "image": "i"}]}}', "metadata.labels[x\\udfff]"),
    ('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "creationTimestamp": "\\ud800"}, "spec": '
     '{"containers": [{"name": "c", "image": "i"}]}}', "metadata.creationTimestamp"),
    ('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a\\ud800"}}', "metadata.name"),
    ('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec\\ud800": {}}', "spec\\ud800"),
    ('{"apiVersion": "v1", "kind": "Pod\\ud800", "metadata": {"name": "a"}}', "kind"),
    ('{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "\\udc00"}}', "data[k]"),
    ('{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"\\udc00": null}}',
     "data[\\udc00]"),
    ('{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "stringData": {"k": "\\udc00"}}',
     "stringData[k]"),
    ('{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"k": "\\udc00"}}', "data[k]"),
    ('[{"\\ud800": 1, "\\ud800": 2}]', ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "field"), SURROGATES)
def test_manifest_with_half_a_surrogate_pair_becomes_a_problem_of_its_field(text: str, field: str) -> None:
    manifest = parse(text.encode(), "/m/a.json")
    assert manifest.objects == ()
    assert field in [problem.field for problem in manifest.problems]
    for problem in manifest.problems:
        assert str(problem).encode()


def test_manifest_with_half_a_surrogate_pair_keeps_its_other_objects() -> None:
    good = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}, "data": {"k": "v"}}'
    both = '{"apiVersion": "v1", "kind": "List", "items": [' + SURROGATES[0][0] + "," + good + "]}"
    manifest = parse(both.encode(), "/m/a.json")
    assert [str(item.key) for item in manifest.objects] == ["ConfigMap default/b"]
    assert [problem.field for problem in manifest.problems] == ["items[0]." + SURROGATES[0][1]]


def test_exception_while_parsing_becomes_a_problem_of_one_object(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[parse.__module__]
    check = module.validate

    def fails(value: core.Pod) -> object:
        if value.metadata.name == "a":
            raise RuntimeError("with the secret in it")
        return check(value)

    monkeypatch.setattr(module, "validate", fails)
    manifest = read(POD % "a" + "---" + POD % "b")
    assert keys(manifest) == ["Pod default/b"]
    assert [problem.document for problem in manifest.problems] == [1]
    assert "cannot be checked: RuntimeError in test_parse.py:" in str(manifest.problems[0])
    assert "secret" not in str(manifest.problems[0])
    monkeypatch.setattr(module, "read_documents", fails)
    assert "cannot be checked: TypeError" in str(read(POD % "b").problems[0])
