"""The defaults of core/v1 for pods, ConfigMaps and Secrets."""

import json

import pytest

from pykubelet.kubelet.desired.manifest.defaults import with_defaults
from pykubelet.models import codec
from pykubelet.models import core_v1 as core


def pod_with(spec: object) -> core.PodSpec:
    return with_defaults(codec.decode(json.dumps({"spec": spec}).encode(), core.Pod)).spec


def container_with(container: object, **spec: object) -> core.Container:
    return pod_with({"containers": [container], **spec}).containers[0]


def test_pod_without_fields_gets_the_defaults() -> None:
    spec = pod_with({})
    assert spec == core.PodSpec(
        restart_policy="Always",
        dns_policy="ClusterFirst",
        scheduler_name="default-scheduler",
        security_context=core.PodSecurityContext(),
        enable_service_links=True,
        termination_grace_period_seconds=30,
    )


def test_given_values_are_kept() -> None:
    given = {
        "restartPolicy": "Never",
        "dnsPolicy": "None",
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 0,
    }
    spec = pod_with(given)
    assert (spec.restart_policy, spec.dns_policy) == ("Never", "None")
    assert (spec.enable_service_links, spec.termination_grace_period_seconds) == (False, 0)


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("busybox:1.36", "IfNotPresent"),
        ("host:5000/busybox", "Always"),
        ("host:5000/a/b:2", "IfNotPresent"),
        (f"busybox@sha256:{'a' * 64}", "IfNotPresent"),
        (f"host:5000/busybox@sha256:{'a' * 64}", "IfNotPresent"),
        (f"busybox:latest@sha256:{'a' * 64}", "Always"),
        ("busybox@sha256:abc", "IfNotPresent"),
        ("Busybox", "IfNotPresent"),
        ("Busybox:latest", "IfNotPresent"),
        ("", "IfNotPresent"),
    ],
)
def test_pull_policy_is_defaulted_by_tag(image: str, policy: str) -> None:
    """As ``SetDefaults_Container`` upstream, where an invalid name has no tag."""
    spec = pod_with({"containers": [{"name": "c", "image": image}]})
    assert spec.containers[0].image_pull_policy == policy
    volume = pod_with({"volumes": [{"name": "v", "image": {"reference": image}}]}).volumes[0].image
    assert volume is not None
    assert volume.pull_policy == policy


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_containers_of_both_kinds(kind: str) -> None:
    spec = pod_with(
        {
            kind: [
                {
                    "name": "c",
                    "image": "a:1",
                    "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}],
                }
            ]
        }
    )
    (container,) = spec.containers or spec.init_containers
    assert container.image_pull_policy == "IfNotPresent"
    assert container.termination_message_path == "/dev/termination-log"
    assert container.termination_message_policy == "File"
    assert [port.protocol for port in container.ports] == ["TCP", "UDP"]


def test_host_network_makes_host_ports() -> None:
    ports = [{"containerPort": 80}, {"containerPort": 81, "hostPort": 82}]
    assert [p.host_port for p in container_with({"ports": ports}, hostNetwork=True).ports] == [80, 82]
    assert [p.host_port for p in container_with({"ports": ports}).ports] == [None, 82]


def test_probes_and_hooks_get_their_defaults() -> None:
    container = container_with(
        {
            "livenessProbe": {"httpGet": {"port": 80}},
            "readinessProbe": {"exec": {"command": ["x"]}, "periodSeconds": 5, "initialDelaySeconds": 0},
            "startupProbe": {"httpGet": {"port": 80, "path": "/x", "scheme": "HTTPS"}, "failureThreshold": 30},
            "lifecycle": {"preStop": {"httpGet": {"port": 80}}},
        }
    )
    assert container.liveness_probe == core.Probe(
        http_get=core.HTTPGetAction(port=80, path="/", scheme="HTTP"),
        timeout_seconds=1,
        period_seconds=10,
        success_threshold=1,
        failure_threshold=3,
    )
    assert container.readiness_probe is not None
    assert (container.readiness_probe.period_seconds, container.readiness_probe.initial_delay_seconds) == (5, 0)
    assert container.startup_probe is not None
    assert container.startup_probe.http_get == core.HTTPGetAction(port=80, path="/x", scheme="HTTPS")
    assert container.startup_probe.failure_threshold == 30
    assert container.lifecycle is not None
    assert container.lifecycle.pre_stop == core.LifecycleHandler(
        http_get=core.HTTPGetAction(port=80, path="/", scheme="HTTP")
    )
    assert container.lifecycle.post_start is None


def test_requests_default_to_limits() -> None:
    container = container_with({"resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}})
    assert container.resources is not None
    assert container.resources.requests == {"cpu": "1", "memory": "1Gi"}
    assert container_with({"resources": {"requests": {"cpu": "1"}}}).resources == core.ResourceRequirements(
        requests={"cpu": "1"}
    )


def test_pod_level_resources() -> None:
    spec = pod_with(
        {
            "resources": {"limits": {"cpu": "4"}},
            "containers": [
                {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}},
                {"resources": {"requests": {"cpu": "500m"}}},
            ],
            "initContainers": [
                {"restartPolicy": "Always", "resources": {"requests": {"cpu": "250m"}}},
                {"resources": {"requests": {"cpu": "2", "memory": "512Mi"}}},
            ],
        }
    )
    assert spec.resources is not None
    # The init container beside the sidecar (2250m) needs more CPU than everything running (1750m).
    assert spec.resources.requests == {"cpu": "2250m", "memory": "1Gi"}
    assert spec.resources.limits == {"cpu": "4"}


def test_pod_level_huge_pages_follow_the_containers() -> None:
    limits = {"limits": {"hugepages-2Mi": "4Mi", "memory": "1Gi"}}
    spec = pod_with(
        {"resources": {"limits": {"memory": "2Gi"}}, "containers": [{"resources": limits}, {"resources": limits}]}
    )
    assert spec.resources is not None
    assert spec.resources.limits == {"memory": "2Gi", "hugepages-2Mi": "8Mi"}
    assert spec.resources.requests == {"memory": "2Gi", "hugepages-2Mi": "8Mi"}


def test_volumes_get_the_defaults_of_their_kinds() -> None:
    spec = pod_with(
        {
            "volumes": [
                {"name": "none"},
                {"name": "c", "configMap": {"name": "c"}},
                {"name": "s", "secret": {"secretName": "s", "defaultMode": 0o400}},
                {"name": "d", "downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]}},
                {
                    "name": "p",
                    "projected": {
                        "sources": [
                            {"serviceAccountToken": {"path": "t"}},
                            {"downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]}},
                        ]
                    },
                },
                {"name": "i", "image": {"reference": "a:latest"}},
                {"name": "h", "hostPath": {"path": "/x"}},
            ]
        }
    )
    none, config_map, secret, downward, projected, image, host = spec.volumes
    assert none.empty_dir == core.EmptyDirVolumeSource()
    assert config_map.config_map == core.ConfigMapVolumeSource(name="c", default_mode=0o644)
    assert secret.secret == core.SecretVolumeSource(secret_name="s", default_mode=0o400)
    assert downward.downward_api is not None
    assert downward.downward_api.default_mode == 0o644
    name = core.ObjectFieldSelector(api_version="v1", field_path="metadata.name")
    assert downward.downward_api.items[0].field_ref == name
    assert projected.projected is not None
    token, more = projected.projected.sources
    assert token.service_account_token == core.ServiceAccountTokenProjection(path="t", expiration_seconds=3600)
    assert more.downward_api is not None
    assert more.downward_api.items[0].field_ref == name
    assert image.image == core.ImageVolumeSource(reference="a:latest", pull_policy="Always")
    assert host.host_path == core.HostPathVolumeSource(path="/x")
    assert host.empty_dir is None


def test_environment_sources_get_their_defaults() -> None:
    file_key = {"volumeName": "v", "path": "p", "key": "k"}
    container = container_with(
        {
            "env": [
                {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "B", "valueFrom": {"fileKeyRef": file_key}},
                {"name": "C"},
            ]
        }
    )
    field, file, plain = container.env
    assert field.value_from is not None
    assert field.value_from.field_ref == core.ObjectFieldSelector(api_version="v1", field_path="metadata.name")
    assert file.value_from is not None
    assert file.value_from.file_key_ref is not None
    assert file.value_from.file_key_ref.optional is False
    assert plain == core.EnvVar(name="C")


def test_defaults_can_be_applied_again() -> None:
    spec = {
        "containers": [{"name": "c", "image": "i", "livenessProbe": {"grpc": {"port": 1}}}],
        "volumes": [{"name": "v"}],
    }
    once = with_defaults(codec.decode(json.dumps({"spec": spec}).encode(), core.Pod))
    assert with_defaults(once) == once


def test_secrets_get_a_type_and_plain_data_wins() -> None:
    secret = with_defaults(core.Secret(data={"a": b"1", "b": b"2"}, string_data={"a": "é"}))
    assert secret.type == "Opaque"
    assert secret.data == {"a": "é".encode(), "b": b"2"}
    assert with_defaults(core.Secret(type="x")).type == "x"
    assert with_defaults(core.ConfigMap()).metadata.namespace == "default"
