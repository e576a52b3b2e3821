# ruff: noqa: E501 - tables, one case a line
"""Manifests against each other and against a node: each finding has its place, its rule and a remedy."""

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from pykubelet.kubelet.desired.check import CheckFinding, CheckSource, Rule, Severity, check
from pykubelet.kubelet.desired.manifest import parse
from pykubelet.kubelet.types.reports.node_view import HostPortView, NodeView, ObjectView, PodView

ERROR, WARNING = Severity.ERROR, Severity.WARNING
DIRECTORY = "/etc/manifests"
NODE = NodeView(
    name="n1",
    manifests=DIRECTORY,
    labels={"kubernetes.io/hostname": "n1", "disk": "ssd"},
    allocatable={"cpu": "2", "memory": "1Gi", "ephemeral-storage": "10Gi"},
    runtime_handlers=("", "crun"),
    objects=(ObjectView(kind="ConfigMap", namespace="default", name="settings", keys=("mode",), source=f"{DIRECTORY}/s.yaml"),),
    pods=(
        PodView(
            namespace="default",
            name="web",
            source=f"{DIRECTORY}/web.yaml",
            requests={"cpu": "1500m"},
            host_ports=(HostPortView(port=80),),
        ),
    ),
)  # fmt: skip
HEAD = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n"


def pod(container: str = "", spec: str = "", name: str = "a", image: str = "busybox:1") -> str:
    """Return a pod's manifest: the container is on line 6, ``spec`` below it."""
    return f"{HEAD % name}  containers:\n  - {{name: c, image: {image}, {container}}}\n{spec}"


def sources(texts: Mapping[str, str], directory: str = "/home/me") -> list[CheckSource]:
    return [
        CheckSource(parse(text.encode(), name, positions=True), f"{directory}/{name}") for name, text in texts.items()
    ]


def run(*texts: str, node: NodeView | None = NODE, directory: str = "/home/me", **more: Any) -> Sequence[CheckFinding]:
    named = dict(zip(("a.yaml", "b.yaml", "c.yaml"), texts, strict=False))
    return check(sources(named, directory), node, **more)


def test_a_valid_pod_has_no_finding() -> None:
    spec = (
        "  nodeSelector: {disk: ssd}\n  runtimeClassName: crun\n  volumes: [{name: v, configMap: {name: settings}}]\n"
    )
    assert (
        run(pod("resources: {requests: {memory: 1Gi, cpu: 500m}}, ports: [{containerPort: 80, hostPort: 81}]", spec))
        == ()
    )


@pytest.mark.parametrize(
    ("text", "rule", "severity", "place", "message", "remedy"),
    [
        # images
        (pod(image="Nginx:lat est"), Rule.IMAGE_REFERENCE, ERROR, "6 spec.containers[0].image", "'Nginx:lat est' is no image reference: 'library/Nginx' is invalid: names are lower case", "docker.io/library/busybox:1.36"),
        (pod(image="'busybox:lat est'"), Rule.IMAGE_REFERENCE, ERROR, "6 spec.containers[0].image", "'lat est' is not a valid tag", "[REGISTRY/]NAME[:TAG|@DIGEST]"),
        (pod(image="busybox@sha256:abc"), Rule.IMAGE_REFERENCE, ERROR, "6 spec.containers[0].image", "'sha256:abc' is not a digest", "busybox:1.36"),
        (pod(spec="  initContainers: [{name: i, image: a//b}]\n"), Rule.IMAGE_REFERENCE, ERROR, "7 spec.initContainers[0].image", "not a repository name", "busybox"),
        (pod(spec="  volumes:\n  - {name: v, image: {reference: A}}\n"), Rule.IMAGE_REFERENCE, ERROR, "8 spec.volumes[0].image.reference", "lower case", "busybox"),
        # ConfigMaps, Secrets and their keys
        (pod("envFrom: [{configMapRef: {name: setings}}]"), Rule.MISSING_OBJECT, ERROR, "6 spec.containers[0].envFrom[0].configMapRef.name", "the manifest directory has no ConfigMap 'setings' in namespace 'default'", "did you mean settings?"),
        (pod("env: [{name: A, valueFrom: {secretKeyRef: {name: settings, key: k}}}]"), Rule.MISSING_OBJECT, ERROR, "6 spec.containers[0].env[0].valueFrom.secretKeyRef.name", "no Secret 'settings'", "write a Secret of that name into the manifest directory, or set optional: true"),
        (pod("env: [{name: A, valueFrom: {configMapKeyRef: {name: settings, key: mod}}}]"), Rule.MISSING_OBJECT, ERROR, "6 spec.containers[0].env[0].valueFrom.configMapKeyRef.key", "ConfigMap 'settings' has no key 'mod'", "did you mean mode?"),
        (pod(spec="  volumes:\n  - {name: v, secret: {secretName: s}}\n"), Rule.MISSING_OBJECT, ERROR, "8 spec.volumes[0].secret.secretName", "no Secret 's'", "optional: true"),
        (pod(spec="  volumes:\n  - {name: v, configMap: {name: settings, items: [{key: x, path: y}]}}\n"), Rule.MISSING_OBJECT, ERROR, "8 spec.volumes[0].configMap.items[0].key", "no key 'x'", "its keys are: mode"),
        (pod(spec="  volumes:\n  - name: v\n    projected: {sources: [{configMap: {name: x}}]}\n"), Rule.MISSING_OBJECT, ERROR, "9 spec.volumes[0].projected.sources[0].configMap.name", "no ConfigMap 'x'", "optional"),
        (pod(spec="  imagePullSecrets: [{name: login}]\n"), Rule.MISSING_OBJECT, WARNING, "7 spec.imagePullSecrets[0].name", "no Secret 'login'; images are pulled without it", "take the field away"),
        # ports
        (pod("ports: [{containerPort: 8080, hostPort: 80}]"), Rule.HOST_PORT, ERROR, "6 spec.containers[0].ports[0].hostPort", "80/TCP is already taken by Pod default/web (/etc/manifests/web.yaml)", "hostIP"),
        # the node
        (pod(spec="  nodeSelector:\n    disk: hdd\n"), Rule.NODE_SELECTOR, ERROR, "8 spec.nodeSelector[disk]", "the node 'n1' has the label disk=ssd, so the pod is rejected", "disk=ssd, kubernetes.io/hostname=n1"),
        (pod(spec="  nodeSelector: {gpu: 'yes'}\n"), Rule.NODE_SELECTOR, ERROR, "7 spec.nodeSelector[gpu]", "has no label gpu", "the node's labels are"),
        (pod(spec="  affinity:\n    nodeAffinity:\n      requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: DoesNotExist}]}]}\n"), Rule.NODE_SELECTOR, ERROR, "9 spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution", "no term matches the node 'n1'", "the node's labels are"),
        (pod(spec="  nodeName: other\n"), Rule.NODE_SELECTOR, WARNING, "7 spec.nodeName", "is not this node's name, 'n1', and has no effect", "take it away"),
        (pod("resources: {requests: {memory: 1Ti}}"), Rule.NODE_RESOURCES, ERROR, "6 spec.containers[0].resources.requests[memory]", "requests 1Ti of memory, but the node has only 1Gi for pods", "lower the request"),
        (pod("resources: {limits: {cpu: 3}}"), Rule.NODE_RESOURCES, ERROR, "6 spec.containers[0].resources.limits[cpu]", "requests 3 of cpu, but the node has only 2", "lower the request"),
        (pod("resources: {limits: {hugepages-2Mi: 4Mi, cpu: 100m}}"), Rule.NODE_RESOURCES, ERROR, "6 spec.containers[0].resources.limits[hugepages-2Mi]", "requests 4Mi of hugepages-2Mi, but the node has only 0", "lower"),
        (pod("resources: {requests: {cpu: 1}}"), Rule.NODE_RESOURCES, WARNING, "6 spec.containers[0].resources.requests[cpu]", "requests 1 of cpu, but the other pods leave 500m of 2; it starts when others have ended", "remove a pod"),
        (pod("resources: {limits: {example.com/gpu: 1}}"), Rule.EXTENDED_RESOURCE, WARNING, "6 spec.containers[0].resources.limits[example.com/gpu]", "no device plugin has registered 'example.com/gpu'", "hostPath"),
        (pod(spec="  runtimeClassName: kata\n"), Rule.RUNTIME_CLASS, ERROR, "7 spec.runtimeClassName", "'kata': no such handler in the container runtime; available: crun", "take the field away"),
        (pod(spec="  securityContext: {appArmorProfile: {type: RuntimeDefault}}\n"), Rule.NODE_FEATURE, ERROR, "7 spec.securityContext.appArmorProfile", "AppArmor is not enabled on the host", ""),
        (pod(spec="  securityContext:\n    sysctls: [{name: net.ipv4.tcp_syncookies, value: '1'}, {name: kernel.msgmax, value: '1'}]\n"), Rule.NODE_FEATURE, ERROR, "8 spec.securityContext.sysctls[1].name", 'forbidden sysctl: "kernel.msgmax" not allowlisted', "allowedUnsafeSysctls"),
        # one object alone: volumes, fields
        (pod("volumeMounts: [{name: data, mountPath: /d}]"), Rule.INVALID_MANIFEST, ERROR, "6 spec.containers[0].volumeMounts[0].name", "the pod has no volume 'data'", "its volumes are: none"),
    ],
)  # fmt: skip
def test_a_finding_has_place_message_and_remedy(
    text: str, rule: Rule, severity: Severity, place: str, message: str, remedy: str
) -> None:
    (found,) = run(text)
    problem = found.problem
    assert (found.rule, found.severity, problem.origin) == (rule, severity, "a.yaml")
    assert f"{problem.line} {problem.field}" == place
    name = re.split(r"[.\[]", problem.field.rstrip("]"))[-1] if "[example" not in problem.field else "example.com/gpu"
    assert text.splitlines()[problem.line - 1][problem.column - 1 :].startswith(name)
    assert message in problem.message
    assert remedy in problem.remedy
    assert str(found).startswith(
        f"a.yaml:{problem.line}:{problem.column}: {severity}: Pod default/a: {problem.field}: "
    )


def test_host_port_of_two_files_names_both_lines() -> None:
    text = "ports: [{containerPort: 1, hostPort: 443}]"
    (found,) = run(pod(text), pod("\n     " + text, name="b"))
    assert (found.problem.origin, found.problem.line, found.problem.object) == ("b.yaml", 7, "Pod default/b")
    assert "443/TCP is already taken by Pod default/a (a.yaml:6)" in found.problem.message
    assert [str(place) for place in found.related] == ["a.yaml:6"]


def test_ports_of_other_addresses_or_protocols_do_not_conflict() -> None:
    assert run(pod("ports: [{containerPort: 1, hostPort: 80, protocol: UDP}]")) == ()
    first = pod("ports: [{containerPort: 1, hostPort: 90, hostIP: 10.0.0.1}]")
    assert run(first, pod("ports: [{containerPort: 1, hostPort: 90, hostIP: 10.0.0.2}]", name="b")) == ()
    assert len(run(first, pod("ports: [{containerPort: 1, hostPort: 90}]", name="b"))) == 1


def test_ports_of_the_host_network_are_host_ports() -> None:
    (found,) = run(pod("ports: [{containerPort: 80}]", "  hostNetwork: true\n"))
    assert (found.rule, found.problem.line) == (Rule.HOST_PORT, 6)


def test_port_of_a_pod_of_the_node_has_a_line_if_its_manifest_is_known() -> None:
    known = [
        parse(
            pod("ports: [{containerPort: 1, hostPort: 80}]", name="web").encode(),
            f"{DIRECTORY}/web.yaml",
            positions=True,
        )
    ]
    (found,) = run(pod("ports: [{containerPort: 1, hostPort: 80}]"), known=known)
    assert [str(place) for place in found.related] == [f"{DIRECTORY}/web.yaml:6"]


def test_object_in_two_files_names_both_lines() -> None:
    (found,) = run(pod(), "\n\n" + pod(), directory=DIRECTORY)
    assert (found.rule, found.severity) == (Rule.DUPLICATE_OBJECT, ERROR)
    assert str(found).startswith(
        "b.yaml:5:12: error: Pod default/a: metadata.name: is already given in a.yaml:1, which is used; "
    )
    assert [str(place) for place in found.related] == ["a.yaml:3"]


def test_uid_of_two_pods_is_reported() -> None:
    texts = [pod(name=name).replace("metadata: {", "metadata: {uid: u, ") for name in ("a", "b")]
    (found,) = run(*texts)
    assert "has the uid of Pod default/a" in found.problem.message


def test_object_of_the_node_from_another_file_of_the_directory_is_an_error() -> None:
    (found,) = run(pod(name="web"), directory=DIRECTORY)
    assert (found.rule, found.severity, found.problem.line) == (Rule.DUPLICATE_OBJECT, ERROR, 3)
    assert found.problem.message == "is already given in /etc/manifests/web.yaml"


def test_draft_of_an_object_of_the_node_is_a_warning_unless_its_file_has_the_same_name() -> None:
    (found,) = run(pod(name="web"))
    assert (found.rule, found.severity) == (Rule.DUPLICATE_OBJECT, WARNING)
    assert found.problem.message == "the agent runs it from /etc/manifests/web.yaml"
    assert found.problem.remedy.startswith("`pykubelet apply -f` changes it there; ")
    assert check(sources({"web.yaml": pod(name="web")}), NODE) == ()


def test_new_version_of_a_file_replaces_the_nodes_objects() -> None:
    text = pod("ports: [{containerPort: 1, hostPort: 80}], resources: {requests: {cpu: 2}}", name="next")
    assert check(sources({"web.yaml": text}, DIRECTORY), NODE) == ()
    assert check(sources({"web.yaml": text}, "/home/me"), NODE) == ()
    uses = pod("envFrom: [{configMapRef: {name: settings}}]")
    (found,) = check(sources({"s.yaml": uses}, DIRECTORY), NODE)
    assert "no ConfigMap 'settings'" in found.problem.message


def test_objects_of_the_files_given_count() -> None:
    made = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {user: me}\n"
    uses = pod("env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: %s}}}]")
    assert run(uses % "user", made) == ()
    (found,) = run(uses % "password", made)
    assert found.problem.message == "Secret 's' has no key 'password'"
    assert run(uses % "user", made + "dataa: {}\n")[0].rule is Rule.INVALID_MANIFEST


def test_invalid_object_is_not_reported_as_missing() -> None:
    broken = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndataa: {}\n"
    found = run(pod("envFrom: [{configMapRef: {name: m}}]"), broken)
    assert [each.rule for each in found] == [Rule.INVALID_MANIFEST]


def test_optional_objects_and_keys_may_be_missing() -> None:
    assert run(pod("envFrom: [{configMapRef: {name: x, optional: true}}]")) == ()
    assert run(pod("env: [{name: A, valueFrom: {configMapKeyRef: {name: settings, key: x, optional: true}}}]")) == ()


def test_object_of_another_namespace_is_named() -> None:
    made = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, namespace: apart}\n"
    (found,) = run(pod("envFrom: [{configMapRef: {name: m}}]"), made)
    assert "there is one in namespace 'apart'" in found.problem.remedy


@pytest.mark.parametrize("node", [None, NodeView(name="n", cluster=True, allocatable={"cpu": "1", "memory": "1Gi"})])
def test_missing_object_is_a_warning_where_it_may_exist(node: NodeView | None) -> None:
    (found,) = run(pod("envFrom: [{configMapRef: {name: x}}]"), node=node)
    assert (found.rule, found.severity) == (Rule.MISSING_OBJECT, WARNING)


def test_pods_that_do_not_fit_together_are_a_warning() -> None:
    half = "resources: {requests: {memory: 600Mi}}"
    (found,) = run(pod(half), pod(half, name="b"))
    assert (found.severity, found.problem.origin) == (WARNING, "b.yaml")
    assert "the other pods leave 424Mi of 1Gi" in found.problem.message


def test_pods_of_the_api_server_are_preempted_but_keep_their_ports() -> None:
    other = PodView(namespace="default", name="api", requests={"cpu": "2"}, host_ports=(HostPortView(port=90),))
    node = msgspec.structs.replace(NODE, pods=(other,))
    assert run(pod("resources: {requests: {cpu: 2}}"), node=node) == ()
    (found,) = run(pod("ports: [{containerPort: 1, hostPort: 90}]"), node=node)
    assert "90/TCP is already taken by Pod default/api (the API server)" in found.problem.message


def test_number_of_pods_is_limited() -> None:
    node = NodeView(name="n1", allocatable=NODE.allocatable, max_pods=1)
    (found,) = run(pod(), pod(name="b"), node=node)
    assert found.problem.message.startswith("the node runs at most 1 pods")


def test_without_a_node_only_the_capacity_of_the_machine_is_checked() -> None:
    text = pod(
        "resources: {requests: {memory: 2Gi}, limits: {example.com/x: 1}}",
        "  nodeSelector: {x: y}\n  runtimeClassName: z\n",
    )
    assert run(text, node=None) == ()
    (found,) = run(text, node=None, capacity={"cpu": "1", "memory": "1234567Ki"})
    assert (found.rule, found.severity) == (Rule.NODE_RESOURCES, ERROR)
    assert found.problem.message == "requests 2Gi of memory, but this machine has only 1.2Gi of it"


def test_sysctls_that_the_node_allows_are_valid() -> None:
    text = pod(
        spec="  securityContext: {sysctls: [{name: kernel.msgmax, value: '1'}, {name: net.core.x, value: '1'}]}\n"
    )
    node = msgspec.structs.replace(NODE, sysctls=("kernel.msgmax", "net.core.*"))
    assert run(text, node=node) == ()


def test_name_that_is_too_long_with_the_nodes_is_reported() -> None:
    (found,) = run(pod(name="a" * 251))
    assert "with the node's name added" in found.problem.message


def test_findings_are_in_the_order_of_files_and_lines() -> None:
    bad = pod("resources: {requests: {memory: 1Ti}}", "  nodeSelector: {x: y}\n", image="A")
    found = run(bad, bad.replace("{name: a}", "{name: b}"))
    assert [(each.problem.origin, each.problem.line) for each in found] == [
        (file, line) for file in ("a.yaml", "b.yaml") for line in (6, 6, 7)
    ]


def test_findings_of_one_line_are_in_the_order_of_columns() -> None:
    (*_, image, ports) = run(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {hostNetwork: true, containers: [\n"
        "{name: a, image: A, ports: [{containerPort: 80, hostPort: 80}]}]}\n---\n"
        "apiVersion: v1\nkind: Pod\nmetadata: {name: b}\nspec: {hostNetwork: true, containers: [\n"
        "{name: b, ports: [{containerPort: 80, hostPort: 80}], image: A}]}\n"
    )
    assert image.problem.line == ports.problem.line == 11
    assert (image.rule, ports.rule) == (Rule.HOST_PORT, Rule.IMAGE_REFERENCE)


def test_every_rule_has_a_description() -> None:
    assert all(rule.description.endswith(".") for rule in Rule)


def test_port_of_many_pods_names_a_few_of_them() -> None:
    text = "ports: [{containerPort: 1, hostPort: 443}]"
    found = run("---\n".join(pod(text, name=f"a{number}") for number in range(50)))
    assert len(found) == 49
    assert all("by Pod default/a0 (a.yaml:6)" in each.problem.message for each in found)
    assert max(len(each.related) for each in found) == 10


def test_port_of_all_addresses_conflicts_with_those_of_each_in_their_order() -> None:
    ports = [f"{{containerPort: 80, hostPort: 81, hostIP: {ip}}}" for ip in ("10.0.0.2", "0.0.0.0", "10.0.0.1")]
    texts = [pod(f"ports: [{port}]", name=name) for name, port in zip("abc", ports, strict=True)]
    found = [(f.problem.origin, [place.origin for place in f.related]) for f in run(*texts)]
    assert found == [("b.yaml", ["a.yaml"]), ("c.yaml", ["b.yaml"])]
    everywhere = pod("ports: [{containerPort: 80, hostPort: 81}]", name="z")
    texts = [texts[0], texts[2], everywhere]
    assert [[place.origin for place in f.related] for f in run(*texts)] == [["a.yaml", "b.yaml"]]


@pytest.mark.parametrize("ip", ["", ", hostIP: 10.0.%d.%d"], ids=["resources", "ports of different addresses"])
def test_work_of_a_check_grows_with_the_number_of_pods(ip: str) -> None:
    """Twice the pods are twice the calls: it counts them, since times vary on a busy machine."""
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    def work(number: int) -> int:
        nonlocal calls
        port = "ports: [{containerPort: 80, hostPort: 81%s}]"
        texts = {
            f"{n:05}.yaml": pod(
                port % (ip % divmod(n, 250)) if ip else "resources: {requests: {cpu: 1m}}", name=f"p{n}"
            )
            for n in range(number)
        }
        given = sources(texts)
        calls = 0
        sys.setprofile(count)
        try:
            check(given, NODE)
        finally:
            sys.setprofile(None)
        return calls

    assert work(120) < 2.3 * work(60)
