"""Objects of the API server that pods refer to: ConfigMaps, Secrets, services, tokens, runtime classes."""

import json
import time
from base64 import urlsafe_b64decode
from pathlib import Path

import pytest

from pykubelet.testing.agent import wait_for, waiting_reason
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.registry import Registry
from tests.cgroup_view import cgroup_of
from tests.cluster.cluster_node import Cluster
from tests.manifests import Json, config_map, container, mount, pod, secret, serving

pytestmark = [pytest.mark.root, pytest.mark.runtime]
_CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
_SECRETS = "/api/v1/namespaces/default/secrets"


def test_config_maps_and_secrets_are_followed_within_a_second(cluster: Cluster) -> None:
    cluster.api.create(_CONFIG_MAPS, config_map("settings", {"color": "red"}))
    cluster.api.create(_SECRETS, secret("words", {"word": "red"}))
    main = container(
        volumeMounts=[mount("cfg", "/cfg"), mount("words", "/words"), mount("both", "/both")],
        env=[{"name": "COLOR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "color"}}}],
    )
    sources = [{"configMap": {"name": "settings"}}, {"secret": {"name": "words"}}]
    volumes = [
        {"name": "cfg", "configMap": {"name": "settings"}},
        {"name": "words", "secret": {"secretName": "words"}},
        {"name": "both", "projected": {"sources": sources}},
    ]
    made = cluster.run(pod("reader", main, volumes=volumes))
    cluster.ready("reader")
    shown = "cat /cfg/color /both/color /words/word /both/word"
    assert cluster.agent.exec("reader", f"echo $COLOR; {shown}") == "red\nredredredred"
    directory = cluster.agent.root / "pods" / made["metadata"]["uid"] / "volumes"
    places = ["configmap/cfg/color", "projected/both/color", "secret/words/word", "projected/both/word"]
    paths = [directory / f"kubernetes.io~{place}" for place in places]
    for value in ("blue", "green"):
        cluster.api.merge(f"{_CONFIG_MAPS}/settings", {"data": {"color": value}})
        cluster.api.merge(f"{_SECRETS}/words", {"stringData": {"word": value}})
        changed = time.monotonic()
        wait_for(lambda: {path.read_text() for path in paths} == {value}, 5.0, cluster.agent.log_tail)  # noqa: B023
        assert time.monotonic() - changed < 1.0 * PATIENCE
    assert cluster.agent.exec("reader", shown) == "green" * 4
    cluster.delete("reader")
    cluster.api.delete(f"{_CONFIG_MAPS}/settings")
    cluster.api.delete(f"{_SECRETS}/words")


def test_a_pod_waits_for_its_secret(cluster: Cluster) -> None:
    main = container(envFrom=[{"secretRef": {"name": "late"}}])
    cluster.run(pod("waiter", main))
    cluster.until("waiter", lambda p: waiting_reason(p) == "CreateContainerConfigError")
    cluster.api.create(_SECRETS, secret("late", {"PASSWORD": "hunter2"}))
    cluster.ready("waiter", 10.0)
    assert cluster.agent.exec("waiter", "echo $PASSWORD").strip() == "hunter2"
    cluster.delete("waiter")
    cluster.api.delete(f"{_SECRETS}/late")


def test_an_immutable_secret_is_mounted(cluster: Cluster) -> None:
    cluster.api.create(_SECRETS, {**secret("fixed", {"key": "v"}), "immutable": True})
    main = container(volumeMounts=[mount("s", "/s")])
    cluster.run(pod("fixed", main, volumes=[{"name": "s", "secret": {"secretName": "fixed"}}]))
    cluster.ready("fixed")
    assert cluster.agent.exec("fixed", "cat /s/key") == "v"
    cluster.delete("fixed")
    cluster.api.delete(f"{_SECRETS}/fixed")


def test_image_pull_secret_gives_access_to_registry(cluster: Cluster, tmp_path: Path) -> None:
    with Registry(tmp_path) as registry:
        registry.password = "robot:hunter2"
        image = registry.add("private", files={"hello": b"from behind a door"})
        cluster.run(pod("locked", container(image=image), imagePullSecrets=[{"name": "key"}]))
        cluster.until("locked", lambda p: waiting_reason(p) in ("ErrImagePull", "ImagePullBackOff"))
        logins = {"auths": {registry.host: {"username": "robot", "password": "hunter2"}}}
        key = {**secret("key", {".dockerconfigjson": json.dumps(logins)}), "type": "kubernetes.io/dockerconfigjson"}
        cluster.api.create(_SECRETS, key)
        cluster.ready("locked", 40.0)
    assert cluster.agent.exec("locked", "cat /hello") == "from behind a door"
    cluster.delete("locked")
    cluster.api.delete(f"{_SECRETS}/key")


def test_services_become_environment_variables(cluster: Cluster) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "shop-front"},
        "spec": {"ports": [{"port": 80, "name": "http"}], "selector": {"a": "b"}},
    }
    made = cluster.api.create("/api/v1/namespaces/default/services", service)
    wait_for(lambda: cluster.api.find("/api/v1/namespaces/default/services/kubernetes") is not None, 20.0, str)
    cluster.run(pod("linked"))
    cluster.run(pod("unlinked", enableServiceLinks=False))
    cluster.ready("linked")
    cluster.ready("unlinked")
    linked = cluster.agent.exec("linked", "env")
    assert f"SHOP_FRONT_SERVICE_HOST={made['spec']['clusterIP']}\n" in linked
    assert "SHOP_FRONT_SERVICE_PORT_HTTP=80\n" in linked
    assert "KUBERNETES_SERVICE_HOST=10.96.0.1\n" in linked
    unlinked = cluster.agent.exec("unlinked", "env")
    assert "SHOP_FRONT" not in unlinked and "KUBERNETES_SERVICE_HOST=10.96.0.1\n" in unlinked
    cluster.delete("linked")
    cluster.delete("unlinked")
    cluster.api.delete("/api/v1/namespaces/default/services/shop-front")


def test_a_token_of_the_service_account_is_projected(cluster: Cluster) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
    cluster.api.create("/api/v1/namespaces/default/serviceaccounts", account)
    cluster.api.create(_CONFIG_MAPS, config_map("kube-root-ca.crt", {"ca.crt": "a certificate"}))
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
        {"serviceAccountToken": {"path": "vault", "audience": "vault", "expirationSeconds": 3600}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]
    main = container(volumeMounts=[mount("token", "/var/run/secrets/kubernetes.io/serviceaccount", readOnly=True)])
    volumes = [{"name": "token", "projected": {"sources": sources}}]
    made = cluster.run(pod("robot", main, serviceAccountName="robot", volumes=volumes))
    cluster.ready("robot")
    directory = "/var/run/secrets/kubernetes.io/serviceaccount"
    token, vault = cluster.agent.exec("robot", f"cat {directory}/token; echo; cat {directory}/vault").split()
    assert cluster.agent.exec("robot", f"cat {directory}/ca.crt {directory}/namespace") == "a certificatedefault"
    claims = _claims(token)
    assert claims["sub"] == "system:serviceaccount:default:robot"
    assert claims["kubernetes.io"]["pod"] == {"name": "robot", "uid": made["metadata"]["uid"]}
    other = _claims(vault)
    assert other["aud"] == ["vault"] and other["exp"] - other["iat"] == 3600
    cluster.delete("robot")
    cluster.api.delete(f"{_CONFIG_MAPS}/kube-root-ca.crt")
    cluster.api.delete("/api/v1/namespaces/default/serviceaccounts/robot")


def test_a_runtime_class_names_the_handler_and_what_it_takes(cluster: Cluster) -> None:
    classes = "/apis/node.k8s.io/v1/runtimeclasses"
    meta = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass"}
    overhead = {"podFixed": {"cpu": "50m", "memory": "32Mi"}}
    cluster.api.create(classes, {**meta, "metadata": {"name": "plain"}, "handler": "runc", "overhead": overhead})
    cluster.api.create(classes, {**meta, "metadata": {"name": "exotic"}, "handler": "no-such-handler"})
    limits = {"limits": {"cpu": "100m", "memory": "64Mi"}}
    cluster.run(pod("plain", container(command=serving(), resources=limits), runtimeClassName="plain"))
    cluster.run(pod("exotic", runtimeClassName="exotic"))
    cluster.ready("plain")
    # The API server has written the class's overhead into the pod, and the pod's cgroup includes it.
    cgroup = cgroup_of(cluster.agent, "plain")
    assert cgroup.memory_limit == 64 << 20 and cgroup.above().memory_limit == (64 + 32) << 20
    assert cgroup.above().cpu_quota == 15000
    found = cluster.api.find_pod("exotic")
    assert found is not None and found.status.phase == "Pending"
    for name in ("plain", "exotic"):
        cluster.delete(name)
        cluster.api.delete(f"{classes}/{name}")


def _claims(token: str) -> Json:
    body = token.split(".")[1]
    found: Json = json.loads(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return found
