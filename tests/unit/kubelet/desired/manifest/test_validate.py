# ruff: noqa: E501 - tables, one case a line
"""The rules for pods, ConfigMaps and Secrets: each broken one is found at its field, and good objects pass."""

import json
from typing import Any, get_args

import msgspec
import pytest

from pykubelet.kubelet.desired.manifest import parse
from pykubelet.models import core_v1 as core
from tests.unit.kubelet.desired.manifest.samples import BASE

C = "spec.containers[0]"


def changed(changes: dict[str, Any]) -> str:
    """The base pod with values set at paths such as spec.containers.0.name."""
    pod = json.loads(BASE)
    for path, value in changes.items():
        *parents, last = path.split("/")
        target = pod
        for part in parents:
            target = target[int(part)] if isinstance(target, list) else target.setdefault(part, {})
        if isinstance(target, list):
            if last == "+":
                target.append(value)
            else:
                target[int(last)] = value
        elif value is None:
            del target[last]
        else:
            target[last] = value
    return json.dumps(pod)


def problems(text: str) -> list[tuple[str, str]]:
    return [(problem.field, f"{problem.message}; {problem.remedy}") for problem in parse(text.encode(), "f").problems]


def test_base_manifest_is_valid() -> None:
    assert problems(BASE) == []


@pytest.mark.parametrize(
    ("path", "kind"), [("livenessProbe", core.Probe), ("lifecycle/preStop", core.LifecycleHandler)]
)
def test_handlers_of_the_model_are_offered_to_a_probe_or_hook_without_one(
    path: str, kind: type[msgspec.Struct]
) -> None:
    ((_, text),) = problems(changed({f"spec/containers/0/{path}": {}}))
    actions = {each.encode_name for each in msgspec.structs.fields(kind) if _is_object(each.type)}
    assert set(text.rpartition("give one of ")[2].split(", ")) == actions


def _is_object(kind: Any) -> bool:
    return any(issubclass(each, msgspec.Struct) for each in get_args(kind))


MAIN = "spec/containers/0"
GOOD: list[dict[str, Any]] = [
    {"spec/hostNetwork": True, f"{MAIN}/ports/0/hostPort": 80, "spec/securityContext": {}},
    {"spec/dnsPolicy": "None"},
    {"spec/dnsPolicy": "ClusterFirstWithHostNet"},
    {"spec/restartPolicy": "Never"},
    {"spec/activeDeadlineSeconds": 1},
    {"spec/terminationGracePeriodSeconds": 0, f"{MAIN}/lifecycle": None},
    {"spec/shareProcessNamespace": True},
    {"spec/hostUsers": False, f"{MAIN}/securityContext": {"procMount": "Unmasked"}},
    {f"{MAIN}/securityContext": {"privileged": True}, f"{MAIN}/volumeMounts/0/mountPropagation": "Bidirectional"},
    {f"{MAIN}/securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "a/b.json"}}},
    {f"{MAIN}/volumeMounts/1/recursiveReadOnly": "Enabled"},
    {f"{MAIN}/resources": {"limits": {"hugepages-2Mi": "4Mi", "memory": "1Gi", "example.com/gpu": "1"}}},
    {f"{MAIN}/restartPolicy": "Never", f"{MAIN}/restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]},
    {f"{MAIN}/lifecycle": {"stopSignal": "SIGRTMIN+3"}, "spec/os": {"name": "linux"}},
    {"spec/initContainers/0/ports": [{"containerPort": 1, "hostPort": 8080}]},
    {f"{MAIN}/env/0/name": "a.b-c/d"},
    {f"{MAIN}/env/0": {"name": "F", "valueFrom": {"fileKeyRef": {"volumeName": "tmp", "path": "a", "key": "K"}}}},
    {"spec/volumes/0": {"name": "tmp", "emptyDir": {"medium": "Memory"}}},
    {"spec/volumes/0": {"name": "tmp"}},
    {"spec/volumes/0": {"name": "tmp", "nfs": {"server": "s", "path": "/p"}}},
    {"spec/volumes/0": {"name": "tmp", "image": {"reference": "a:1"}}},
    {"spec/resources": {"limits": {"cpu": "2"}, "requests": {"memory": "1Gi"}}},
    {"metadata/namespace": "apps"},
    {"spec/priorityClassName": "system-node-critical"},
    {"spec/imagePullSecrets": [{"name": "s"}]},
    {"spec/runtimeClassName": "kata"},
]  # fmt: skip


@pytest.mark.parametrize("changes", GOOD, ids=str)
def test_allowed_fields_are_accepted(changes: dict[str, Any]) -> None:
    assert problems(changed(changes)) == []


BAD: list[tuple[dict[str, Any], str, str]] = [
    # metadata
    ({"metadata/name": None}, "metadata.name", "is required"),
    ({"metadata/name": "Web"}, "metadata.name", "no DNS subdomain"),
    ({"metadata/name": "a" * 254}, "metadata.name", "254 characters"),
    ({"metadata/namespace": "a.b"}, "metadata.namespace", "no DNS label"),
    ({"metadata/uid": "../x"}, "metadata.uid", "cannot name a directory"),
    ({"metadata/labels": {"-a": "b"}}, "metadata.labels[-a]", "no qualified name"),
    ({"metadata/labels": {"A/b/c": "b"}}, "metadata.labels[A/b/c]", "before '/'"),
    ({"metadata/labels": {"a": "b c"}}, "metadata.labels[a]", "no label value"),
    ({"metadata/annotations": {"a b": "x"}}, "metadata.annotations[a b]", "no qualified name"),
    ({"metadata/annotations": {"a": "x" * 300_000}}, "metadata.annotations", "hold 300001 bytes"),
    # containers
    ({"spec/containers": []}, "spec.containers", "is required"),
    ({f"{MAIN}/name": None}, f"{C}.name", "is required"),
    ({f"{MAIN}/name": "a_b"}, f"{C}.name", "no DNS label"),
    ({f"{MAIN}/name": "a" * 64}, f"{C}.name", "64 characters"),
    ({f"{MAIN}/name": "other"}, "spec.containers[1].name", "also that of spec.containers[0]"),
    ({"spec/initContainers/0/name": "main"}, "spec.initContainers[0].name", "also that of spec.containers[0]"),
    ({f"{MAIN}/image": None}, f"{C}.image", "is required"),
    ({f"{MAIN}/image": " nginx"}, f"{C}.image", "blanks"),
    ({f"{MAIN}/imagePullPolicy": "Sometimes"}, f"{C}.imagePullPolicy", "use Always, IfNotPresent or Never"),
    ({f"{MAIN}/terminationMessagePolicy": "x"}, f"{C}.terminationMessagePolicy", "use FallbackToLogsOnError or File"),
    ({f"{MAIN}/restartPolicy": "x"}, f"{C}.restartPolicy", "not possible"),
    ({f"{MAIN}/restartPolicyRules": [{"action": "Restart"}]}, f"{C}.restartPolicy", "is required"),
    ({f"{MAIN}/restartPolicy": "Never", f"{MAIN}/restartPolicyRules": [{"action": "x", "exitCodes": {"operator": "In"}}]}, f"{C}.restartPolicyRules[0].action", "not possible"),
    ({f"{MAIN}/restartPolicy": "Never", f"{MAIN}/restartPolicyRules": [{"action": "Restart"}]}, f"{C}.restartPolicyRules[0].exitCodes", "is required"),
    ({f"{MAIN}/restartPolicy": "Never", f"{MAIN}/restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "Is"}}]}, f"{C}.restartPolicyRules[0].exitCodes.operator", "use In or NotIn"),
    ({f"{MAIN}/volumeDevices": [{"name": "x", "devicePath": "/x"}]}, f"{C}.volumeDevices", "API server"),
    ({f"{MAIN}/resizePolicy": [{"resourceName": "disk", "restartPolicy": "NotRequired"}]}, f"{C}.resizePolicy[0].resourceName", "use cpu or memory"),
    ({f"{MAIN}/resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}], "spec/restartPolicy": "Never"}, f"{C}.resizePolicy[0].restartPolicy", "cannot restart"),
    # init containers
    ({"spec/initContainers/0/livenessProbe": {"exec": {"command": ["x"]}}}, "spec.initContainers[0].livenessProbe", "make a sidecar"),
    ({"spec/initContainers/0/lifecycle": {"preStop": {"exec": {"command": ["x"]}}}}, "spec.initContainers[0].lifecycle", "make a sidecar"),
    ({"spec/initContainers/1/livenessProbe": {}}, "spec.initContainers[1].livenessProbe", "handler is required"),
    # ports
    ({f"{MAIN}/ports/0/containerPort": 0}, f"{C}.ports[0].containerPort", "between 1 and 65535"),
    ({f"{MAIN}/ports/0/containerPort": 70000}, f"{C}.ports[0].containerPort", "is 70000"),
    ({f"{MAIN}/ports/0/hostPort": -1}, f"{C}.ports[0].hostPort", "is -1"),
    ({f"{MAIN}/ports/0/protocol": "tcp"}, f"{C}.ports[0].protocol", "use SCTP, TCP or UDP"),
    ({f"{MAIN}/ports/1/name": "http"}, f"{C}.ports[1].name", "is given twice"),
    ({f"{MAIN}/ports/1/name": "a--b"}, f"{C}.ports[1].name", "no port name"),
    ({f"{MAIN}/ports/1/name": "123"}, f"{C}.ports[1].name", "at least one letter"),
    ({f"{MAIN}/ports/1/hostIP": "x"}, f"{C}.ports[1].hostIP", "no IP address"),
    ({"spec/hostNetwork": True}, f"{C}.ports[0].hostPort", "must equal containerPort"),
    ({"spec/containers/1/ports": [{"containerPort": 1, "hostPort": 8080}]}, "spec.containers[1].ports[0].hostPort", "already taken by spec.containers[0]"),
    ({"spec/initContainers/1/ports": [{"containerPort": 1, "hostPort": 8080}]}, "spec.initContainers[1].ports[0].hostPort", "already taken"),
    # environment
    ({f"{MAIN}/env/0/name": None}, f"{C}.env[0].name", "is required"),
    ({f"{MAIN}/env/0/name": "a=b"}, f"{C}.env[0].name", "no variable name"),
    ({f"{MAIN}/env/0/name": "é"}, f"{C}.env[0].name", "no variable name"),
    ({f"{MAIN}/env/1/value": "x"}, f"{C}.env[1].valueFrom", "beside value"),
    ({f"{MAIN}/env/0/valueFrom": {}}, f"{C}.env[0].valueFrom", "source is required"),
    ({f"{MAIN}/env/2/valueFrom/secretKeyRef": {"name": "s", "key": "k"}}, f"{C}.env[2].valueFrom.secretKeyRef", "stands beside configMapKeyRef"),
    ({f"{MAIN}/env/2/valueFrom/configMapKeyRef/key": "a b"}, f"{C}.env[2].valueFrom.configMapKeyRef.key", "no key"),
    ({f"{MAIN}/env/2/valueFrom/configMapKeyRef/key": ".."}, f"{C}.env[2].valueFrom.configMapKeyRef.key", "no key"),
    ({f"{MAIN}/env/2/valueFrom/configMapKeyRef/name": None}, f"{C}.env[2].valueFrom.configMapKeyRef.name", "is required"),
    ({f"{MAIN}/env/1/valueFrom/fieldRef/fieldPath": "spec.foo"}, f"{C}.env[1].valueFrom.fieldRef.fieldPath", "not possible"),
    ({f"{MAIN}/env/1/valueFrom/fieldRef/fieldPath": "metadata.labels"}, f"{C}.env[1].valueFrom.fieldRef.fieldPath", "not possible"),
    ({f"{MAIN}/env/1/valueFrom/fieldRef/fieldPath": "spec.x['a']"}, f"{C}.env[1].valueFrom.fieldRef.fieldPath", "metadata.labels['KEY']"),
    ({f"{MAIN}/env/3/valueFrom/resourceFieldRef/resource": "limits.disk"}, f"{C}.env[3].valueFrom.resourceFieldRef.resource", "cannot be read"),
    ({f"{MAIN}/env/3/valueFrom/resourceFieldRef/divisor": "1Mi"}, f"{C}.env[3].valueFrom.resourceFieldRef.divisor", "use 1 or 1m"),
    ({f"{MAIN}/envFrom/0/prefix": "a=b"}, f"{C}.envFrom[0].prefix", "no variable name"),
    ({f"{MAIN}/envFrom/0": {}}, f"{C}.envFrom[0]", "source is required"),
    ({f"{MAIN}/env/0": {"name": "F", "valueFrom": {"fileKeyRef": {"volumeName": "conf", "path": "../a", "key": "="}}}}, f"{C}.env[0].valueFrom.fileKeyRef.volumeName", "no emptyDir"),
    # mounts
    ({f"{MAIN}/volumeMounts/0/name": "x"}, f"{C}.volumeMounts[0].name", "its volumes are: all, conf, down, host, tmp"),
    ({f"{MAIN}/volumeMounts/0/mountPath": "tmp"}, f"{C}.volumeMounts[0].mountPath", "not absolute"),
    ({f"{MAIN}/volumeMounts/0/mountPath": "/a/../b"}, f"{C}.volumeMounts[0].mountPath", "contains '..'"),
    ({f"{MAIN}/volumeMounts/0/mountPath": "/conf"}, f"{C}.volumeMounts[1].mountPath", "mounted twice"),
    ({f"{MAIN}/volumeMounts/0/subPath": "/a"}, f"{C}.volumeMounts[0].subPath", "absolute"),
    ({f"{MAIN}/volumeMounts/0/subPath": "a/../b"}, f"{C}.volumeMounts[0].subPath", "contains '..'"),
    ({f"{MAIN}/volumeMounts/0/subPathExpr": "$(A)"}, f"{C}.volumeMounts[0].subPathExpr", "beside subPath"),
    ({f"{MAIN}/volumeMounts/0/mountPropagation": "Bidirectional"}, f"{C}.volumeMounts[0].mountPropagation", "privileged"),
    ({f"{MAIN}/volumeMounts/0/mountPropagation": "x"}, f"{C}.volumeMounts[0].mountPropagation", "not possible"),
    ({f"{MAIN}/volumeMounts/0/recursiveReadOnly": "Enabled"}, f"{C}.volumeMounts[0].recursiveReadOnly", "readOnly: true"),
    # resources
    ({f"{MAIN}/resources/requests/memory": "1Gi"}, f"{C}.resources.requests[memory]", "more than the limit of 128Mi"),
    ({f"{MAIN}/resources/limits/cpu": "-1"}, f"{C}.resources.limits[cpu]", "negative"),
    ({f"{MAIN}/resources/limits/disk": "1"}, f"{C}.resources.limits[disk]", "no resource of a container"),
    ({f"{MAIN}/resources/limits/hugepages-x": "1"}, f"{C}.resources.limits[hugepages-x]", "no page size"),
    ({f"{MAIN}/resources/requests/a.b~c": "1"}, f"{C}.resources.requests[a.b~c]", "no qualified name"),
    ({f"{MAIN}/resources/limits/x.io~gpu": "1"}, f"{C}.resources.limits[x.io~gpu]", "no qualified name"),
    ({f"{MAIN}/resources": {"requests": {"x.io/gpu": "1"}}}, f"{C}.resources.requests[x.io/gpu]", "has no limit"),
    ({f"{MAIN}/resources": {"limits": {"x.io/gpu": "1500m"}}}, f"{C}.resources.limits[x.io/gpu]", "whole number"),
    ({f"{MAIN}/resources": {"requests": {"x.io/gpu": "1"}, "limits": {"x.io/gpu": "2"}}}, f"{C}.resources.requests[x.io/gpu]", "must equal"),
    ({f"{MAIN}/resources": {"limits": {"hugepages-2Mi": "2Mi"}}}, f"{C}.resources", "neither cpu nor memory"),
    ({f"{MAIN}/resources": {"claims": [{"name": "x"}]}}, f"{C}.resources.claims[0].name", "no resource claim"),
    ({"spec/resources": {"requests": {"cpu": "50m"}}}, "spec.resources.requests[cpu]", "less than the 100m that the containers request"),
    ({"spec/resources": {"limits": {"memory": "64Mi"}}}, f"{C}.resources.limits[memory]", "pod's own limit of 64Mi"),
    ({"spec/resources": {"limits": {"ephemeral-storage": "64Mi"}}}, "spec.resources.limits[ephemeral-storage]", "pod level"),
    # probes and hooks
    ({f"{MAIN}/livenessProbe/exec": {"command": ["x"]}}, f"{C}.livenessProbe.httpGet", "stands beside exec"),
    ({f"{MAIN}/livenessProbe": {"periodSeconds": 1}}, f"{C}.livenessProbe", "handler is required"),
    ({f"{MAIN}/livenessProbe": {"exec": {}}}, f"{C}.livenessProbe.exec.command", "is required"),
    ({f"{MAIN}/livenessProbe/httpGet/port": "web"}, f"{C}.livenessProbe.httpGet.port", "no port named 'web'"),
    ({f"{MAIN}/livenessProbe/httpGet/port": 0}, f"{C}.livenessProbe.httpGet.port", "between 1 and 65535"),
    ({f"{MAIN}/livenessProbe/httpGet/scheme": "ftp"}, f"{C}.livenessProbe.httpGet.scheme", "use HTTP or HTTPS"),
    ({f"{MAIN}/livenessProbe/httpGet/httpHeaders": [{"name": "a b", "value": "c"}]}, f"{C}.livenessProbe.httpGet.httpHeaders[0].name", "no HTTP header"),
    ({f"{MAIN}/livenessProbe/httpGet/httpHeaders": [{"name": "a", "value": "c\r\nd: e"}]}, f"{C}.livenessProbe.httpGet.httpHeaders[0].value", "line break"),
    ({f"{MAIN}/livenessProbe/successThreshold": 2}, f"{C}.livenessProbe.successThreshold", "must be 1"),
    ({f"{MAIN}/startupProbe/successThreshold": 2}, f"{C}.startupProbe.successThreshold", "must be 1"),
    ({f"{MAIN}/startupProbe/grpc/port": 99999}, f"{C}.startupProbe.grpc.port", "is 99999"),
    ({f"{MAIN}/readinessProbe/terminationGracePeriodSeconds": 5}, f"{C}.readinessProbe.terminationGracePeriodSeconds", "stops nothing"),
    ({f"{MAIN}/livenessProbe/terminationGracePeriodSeconds": 0}, f"{C}.livenessProbe.terminationGracePeriodSeconds", "at least 1"),
    ({f"{MAIN}/livenessProbe/periodSeconds": -1}, f"{C}.livenessProbe.periodSeconds", "at least 1"),
    ({f"{MAIN}/livenessProbe/initialDelaySeconds": -1}, f"{C}.livenessProbe.initialDelaySeconds", "at least 0"),
    ({f"{MAIN}/lifecycle/preStop/sleep/seconds": 31}, f"{C}.lifecycle.preStop.sleep.seconds", "between 0 and 30"),
    ({f"{MAIN}/lifecycle/preStop": {}}, f"{C}.lifecycle.preStop", "handler is required"),
    ({f"{MAIN}/lifecycle/stopSignal": "SIGTERM"}, f"{C}.lifecycle.stopSignal", "spec.os.name"),
    ({f"{MAIN}/lifecycle/stopSignal": "TERM", "spec/os": {"name": "linux"}}, f"{C}.lifecycle.stopSignal", "no signal"),
    # security
    ({f"{MAIN}/securityContext/runAsUser": -1}, f"{C}.securityContext.runAsUser", "between 0 and 2147483647"),
    ({f"{MAIN}/securityContext/runAsUser": 4294967296}, f"{C}.securityContext.runAsUser", "between 0 and 2147483647"),
    ({f"{MAIN}/securityContext/runAsUser": 0}, f"{C}.securityContext.runAsUser", "runAsNonRoot is true"),
    ({f"{MAIN}/securityContext": {"privileged": True, "allowPrivilegeEscalation": False}}, f"{C}.securityContext.privileged", "allowPrivilegeEscalation"),
    ({f"{MAIN}/securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}, "allowPrivilegeEscalation": False}}, f"{C}.securityContext.capabilities.add", "allowPrivilegeEscalation"),
    ({f"{MAIN}/securityContext": {"procMount": "Unmasked"}}, f"{C}.securityContext.procMount", "hostUsers: false"),
    ({f"{MAIN}/securityContext": {"procMount": "x"}}, f"{C}.securityContext.procMount", "use Default or Unmasked"),
    ({f"{MAIN}/securityContext": {"seccompProfile": {}}}, f"{C}.securityContext.seccompProfile.type", "is required"),
    ({f"{MAIN}/securityContext": {"seccompProfile": {"type": "Localhost"}}}, f"{C}.securityContext.seccompProfile.localhostProfile", "is required"),
    ({f"{MAIN}/securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": ""}}}, f"{C}.securityContext.seccompProfile.localhostProfile", "is required"),
    ({f"{MAIN}/securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "../x"}}}, f"{C}.securityContext.seccompProfile.localhostProfile", "contains '..'"),
    ({f"{MAIN}/securityContext": {"seccompProfile": {"type": "Unconfined", "localhostProfile": "x"}}}, f"{C}.securityContext.seccompProfile.localhostProfile", "only for type: Localhost"),
    ({f"{MAIN}/securityContext": {"appArmorProfile": {"type": "Localhost", "localhostProfile": " x"}}}, f"{C}.securityContext.appArmorProfile.localhostProfile", "blanks"),
    ({"spec/securityContext/fsGroup": -5}, "spec.securityContext.fsGroup", "is -5"),
    ({"spec/securityContext/supplementalGroups": [1, -1]}, "spec.securityContext.supplementalGroups[1]", "is -1"),
    ({"spec/securityContext/fsGroupChangePolicy": "x"}, "spec.securityContext.fsGroupChangePolicy", "use Always or OnRootMismatch"),
    ({"spec/securityContext/supplementalGroupsPolicy": "x"}, "spec.securityContext.supplementalGroupsPolicy", "use Merge or Strict"),
    ({"spec/securityContext/sysctls/0/name": "Net.x"}, "spec.securityContext.sysctls[0].name", "no sysctl"),
    ({"spec/securityContext/sysctls/+": {"name": "net.core.somaxconn", "value": "1"}}, "spec.securityContext.sysctls[1].name", "given twice"),
    ({"spec/securityContext/sysctls/0/value": "1\nkernel.core_pattern=|/x"}, "spec.securityContext.sysctls[0].value", "line break"),
    ({"spec/securityContext/sysctls/0/value": "1+kernel.shm_rmid_forced"}, "spec.securityContext.sysctls[0].value", "'+'"),
    ({"spec/hostNetwork": True, f"{MAIN}/ports": []}, "spec.securityContext.sysctls[0].name", "hostNetwork is true"),
    ({"spec/hostIPC": True, "spec/securityContext/sysctls/0/name": "kernel/shmmax"}, "spec.securityContext.sysctls[0].name", "hostIPC is true"),
    ({"spec/hostPID": True, "spec/shareProcessNamespace": True}, "spec.shareProcessNamespace", "hostPID"),
    ({"spec/hostUsers": False, "spec/hostPID": True}, "spec.hostPID", "hostUsers: false"),
    # volumes
    ({"spec/volumes/2/name": "tmp"}, "spec.volumes[2].name", "given twice"),
    ({"spec/volumes/2/name": "A"}, "spec.volumes[2].name", "no DNS label"),
    ({"spec/volumes/2/name": None}, "spec.volumes[2].name", "is required"),
    ({"spec/volumes/2/emptyDir": {}}, "spec.volumes[2].hostPath", "only one volume source"),
    ({"spec/volumes/2/hostPath/path": ""}, "spec.volumes[2].hostPath.path", "is required"),
    ({"spec/volumes/2/hostPath/path": "/a/../b"}, "spec.volumes[2].hostPath.path", "contains '..'"),
    ({"spec/volumes/2/hostPath/type": "Dir"}, "spec.volumes[2].hostPath.type", "not possible"),
    ({"spec/volumes/0/emptyDir/medium": "Disk"}, "spec.volumes[0].emptyDir.medium", "use HugePages or Memory"),
    ({"spec/volumes/0/emptyDir/sizeLimit": "-1"}, "spec.volumes[0].emptyDir.sizeLimit", "negative"),
    ({"spec/volumes/1/configMap/name": None}, "spec.volumes[1].configMap.name", "is required"),
    ({"spec/volumes/1/configMap/defaultMode": 888}, "spec.volumes[1].configMap.defaultMode", "between 0 and 0777"),
    ({"spec/volumes/1/configMap/items/0/mode": -1}, "spec.volumes[1].configMap.items[0].mode", "between 0 and 0777"),
    ({"spec/volumes/1/configMap/items/0/path": "../x"}, "spec.volumes[1].configMap.items[0].path", "contains '..'"),
    ({"spec/volumes/1/configMap/items/0/path": "..x"}, "spec.volumes[1].configMap.items[0].path", "reserved"),
    ({"spec/volumes/1/configMap/items/0/path": "/x"}, "spec.volumes[1].configMap.items[0].path", "absolute"),
    ({"spec/volumes/1/configMap/items/0/key": None}, "spec.volumes[1].configMap.items[0].key", "is required"),
    ({"spec/volumes/1": {"name": "conf", "secret": {}}}, "spec.volumes[1].secret.secretName", "is required"),
    ({"spec/volumes/3/downwardAPI/items/0/fieldRef/fieldPath": "status.podIP"}, "spec.volumes[3].downwardAPI.items[0].fieldRef.fieldPath", "not possible"),
    ({"spec/volumes/3/downwardAPI/items/0/fieldRef": None}, "spec.volumes[3].downwardAPI.items[0]", "source is required"),
    ({"spec/volumes/4/projected/sources/2/downwardAPI/items/0/resourceFieldRef/containerName": None}, "spec.volumes[4].projected.sources[2].downwardAPI.items[0].resourceFieldRef.containerName", "is required"),
    ({"spec/volumes/4/projected/sources/0/secret": {"name": "x"}}, "spec.volumes[4].projected.sources[0].secret", "only one source"),
    ({"spec/volumes/4/projected/sources/0/configMap/items": [{"key": "a", "path": "cpu"}]}, "spec.volumes[4].projected.sources[2].downwardAPI.items[0].path", "given twice"),
    ({"spec/volumes/4/projected/sources/0": {"serviceAccountToken": {"path": "t"}}}, "spec.volumes[4].projected.sources[0].serviceAccountToken", "API server"),
    ({"spec/volumes/4/projected/sources/0": {"clusterTrustBundle": {"path": "t"}}}, "spec.volumes[4].projected.sources[0].clusterTrustBundle", "API server"),
    ({"spec/volumes/2": {"name": "host", "gitRepo": {"repository": "x"}}}, "spec.volumes[2].gitRepo", "CVE-2024-10220"),
    ({"spec/volumes/2": {"name": "host", "persistentVolumeClaim": {"claimName": "x"}}}, "spec.volumes[2].persistentVolumeClaim", "API server"),
    ({"spec/volumes/2": {"name": "host", "ephemeral": {}}}, "spec.volumes[2].ephemeral", "API server"),
    ({"spec/volumes/2": {"name": "host", "nfs": {"server": "s", "path": "p"}}}, "spec.volumes[2].nfs.path", "not absolute"),
    # the pod
    ({"spec/restartPolicy": "always"}, "spec.restartPolicy", "use Always, Never or OnFailure"),
    ({"spec/dnsPolicy": "x"}, "spec.dnsPolicy", "not possible"),
    ({"spec/dnsPolicy": "None", "spec/dnsConfig/nameservers": []}, "spec.dnsConfig.nameservers", "is required"),
    ({"spec/dnsConfig/nameservers": ["1.1.1.1"] * 4}, "spec.dnsConfig.nameservers", "libc uses 3"),
    ({"spec/dnsConfig/nameservers": ["dns"]}, "spec.dnsConfig.nameservers[0]", "no IP address"),
    ({"spec/dnsConfig/searches": ["a"] * 33}, "spec.dnsConfig.searches", "more than 32"),
    ({"spec/dnsConfig/searches": ["A b"]}, "spec.dnsConfig.searches[0]", "no search domain"),
    ({"spec/dnsConfig/options": [{"value": "x"}]}, "spec.dnsConfig.options[0].name", "is required"),
    ({"spec/terminationGracePeriodSeconds": -1}, "spec.terminationGracePeriodSeconds", "at least 0"),
    ({"spec/activeDeadlineSeconds": 0}, "spec.activeDeadlineSeconds", "is 0"),
    ({"spec/hostname": "a.b"}, "spec.hostname", "no DNS label"),
    ({"spec/subdomain": "A"}, "spec.subdomain", "no DNS label"),
    ({"spec/hostnameOverride": ""}, "spec.hostnameOverride", "no DNS subdomain"),
    ({"spec/hostnameOverride": "a", "spec/setHostnameAsFQDN": True}, "spec.hostnameOverride", "setHostnameAsFQDN"),
    ({"spec/hostnameOverride": "a" * 65}, "spec.hostnameOverride", "64 are possible"),
    ({"spec/hostAliases/0/ip": "x"}, "spec.hostAliases[0].ip", "no IP address"),
    ({"spec/hostAliases/0/hostnames": ["a b"]}, "spec.hostAliases[0].hostnames[0]", "no DNS subdomain"),
    ({"spec/runtimeClassName": ""}, "spec.runtimeClassName", "no DNS subdomain"),
    ({"spec/priorityClassName": "A"}, "spec.priorityClassName", "no DNS subdomain"),
    ({"spec/os": {"name": "windows"}}, "spec.os.name", "use linux"),
    ({"spec/readinessGates": [{"conditionType": "a b"}]}, "spec.readinessGates[0].conditionType", "no qualified name"),
    ({"spec/tolerations/0/operator": "x"}, "spec.tolerations[0].operator", "not possible"),
    ({"spec/tolerations/0/value": "x"}, "spec.tolerations[0].value", "must be empty"),
    ({"spec/tolerations/0/effect": "NoSchedule"}, "spec.tolerations[0].effect", "must be NoExecute"),
    ({"spec/ephemeralContainers": [{"name": "e", "image": "i"}]}, "spec.ephemeralContainers", "cannot be given in a manifest"),
    ({"spec/serviceAccountName": "default"}, "spec.serviceAccountName", "API server"),
    ({"spec/resourceClaims": [{"name": "x"}]}, "spec.resourceClaims", "API server"),
    ({"spec/schedulingGates": [{"name": "x"}]}, "spec.schedulingGates", "API server"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "field", "text"), BAD, ids=lambda value: str(value)[:60])
def test_each_violated_rule_is_reported(changes: dict[str, Any], field: str, text: str) -> None:
    found = problems(changed(changes))
    assert any(where == field and text in what for where, what in found), found


def test_a_toleration_of_every_key_needs_exists() -> None:
    found = problems(changed({"spec/tolerations": [{"operator": "Equal", "value": "x"}]}))
    assert [where for where, _ in found] == ["spec.tolerations[0].operator"]
    assert problems(changed({"spec/tolerations": [{"operator": "Exists"}]})) == []


def test_several_violated_rules_are_all_reported() -> None:
    fields = {
        field
        for field, _ in problems(
            changed({f"{MAIN}/image": None, "spec/hostname": "A", "spec/volumes/2/hostPath/path": ""})
        )
    }
    assert fields == {f"{C}.image", "spec.hostname", "spec.volumes[2].hostPath.path"}


def read(kind: str, rest: str) -> list[tuple[str, str]]:
    return problems(f"apiVersion: v1\nkind: {kind}\nmetadata: {{name: a}}\n{rest}")


@pytest.mark.parametrize(
    ("kind", "rest", "field", "text"),
    [
        ("ConfigMap", "data: {a b: c}", "data[a b]", "no key"),
        ("ConfigMap", "data: {..a: c}", "data[..a]", "no key"),
        ("ConfigMap", "binaryData: {.: AAAA}", "binaryData[.]", "no key"),
        ("ConfigMap", "data: {a: c}\nbinaryData: {a: AAAA}", "data[a]", "also in binaryData"),
        ("ConfigMap", f"data: {{a: {'x' * 1_100_000}}}", "data", "1048576 are possible"),
        ("Secret", "data: {a/b: AAAA}", "data[a/b]", "no key"),
        ("Secret", "type: kubernetes.io/tls\nstringData: {tls.crt: x}", "data[tls.key]", "is required"),
        ("Secret", "type: kubernetes.io/dockerconfigjson", "data[.dockerconfigjson]", "is required"),
        (
            "Secret",
            "type: kubernetes.io/dockerconfigjson\nstringData: {.dockerconfigjson: nope}",
            "data[.dockerconfigjson]",
            "not a JSON object",
        ),
        ("Secret", "type: kubernetes.io/basic-auth", "data", "username or password"),
        ("Secret", "type: kubernetes.io/ssh-auth", "data[ssh-privatekey]", "is required"),
    ],
)
def test_config_maps_and_secrets(kind: str, rest: str, field: str, text: str) -> None:
    assert any(where == field and text in what for where, what in read(kind, rest))


def test_good_config_maps_and_secrets() -> None:
    assert read("ConfigMap", "data: {a.b-c_d: x}\nbinaryData: {e: AAAA}\nimmutable: true") == []
    assert read("Secret", 'type: kubernetes.io/dockerconfigjson\nstringData: {.dockerconfigjson: "{}"}') == []
