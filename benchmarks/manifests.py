"""Manifests of the measured pods. Pure."""

import base64
from typing import Any

IMAGE = "localhost/pykubelet/bench:1"
NAMESPACE = "default"
INIT_CONTAINERS = 5

Manifest = dict[str, Any]

_SLEEP = ["/bin/sleep", "1000000"]
_OBEDIENT = ["/bin/sh", "-c", "trap 'exit 0' TERM; sleep 1000000 & wait"]
_TALKING = ["/bin/sh", "-c", "trap 'exit 0' TERM; echo here; sleep 1000000 & wait"]
# The second start finds the file that the first has created in the volume.
_FAIL_ONCE = ["/bin/sh", "-c", "[ -e /data/been ] && exec /bin/sleep 1000000; : >/data/been; exit 1"]


def plain(name: str) -> list[Manifest]:
    """One container, no volumes."""
    return [_pod(name)]


def with_volumes(name: str) -> list[Manifest]:
    """A pod with configMap, secret and emptyDir volumes; the two objects are in the same file."""
    labels = {"name": f"{name}-config", "namespace": NAMESPACE}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": labels, "data": _entries("setting")}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"{name}-secret", "namespace": NAMESPACE},
        "stringData": _entries("key"),
    }
    volumes = [
        {"name": "config", "configMap": {"name": f"{name}-config"}},
        {"name": "secret", "secret": {"secretName": f"{name}-secret"}},
        {"name": "data", "emptyDir": {}},
    ]
    return [config, secret, _with(_pod(name), volumes)]


def with_static_volumes(name: str) -> list[Manifest]:
    """The closest equivalent of `with_volumes` that the Go kubelet supports: its static pods may not refer to other
    objects, and it mounts no projected volumes without an API server."""
    item = {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}
    volumes = [
        {"name": "config", "downwardAPI": {"items": [item]}},
        {"name": "secret", "downwardAPI": {"items": [item]}},
        {"name": "data", "emptyDir": {}},
    ]
    return [_with(_pod(name), volumes)]


def fails_once(name: str) -> list[Manifest]:
    """A pod whose container exits with 1 at once; after the restart it keeps running."""
    pod = _with(_pod(name), [{"name": "data", "emptyDir": {}}])
    pod["spec"]["containers"][0]["command"] = _FAIL_ONCE
    return [pod]


def with_inits(name: str) -> list[Manifest]:
    """A pod with five init containers that exit at once, then the main container."""
    pod = _pod(name)
    pod["spec"]["initContainers"] = _inits()
    return [pod]


def served_without_token(name: str) -> Manifest:
    """A pod of a cluster without volumes. It exits on SIGTERM at once."""
    pod = _pod(name)
    del pod["spec"]["terminationGracePeriodSeconds"]
    pod["spec"] |= {"serviceAccountName": "default", "automountServiceAccountToken": False}
    pod["spec"]["containers"][0]["command"] = _OBEDIENT
    return pod


def served(name: str) -> Manifest:
    """The default pod, with its service account's token as admission mounts it (older API servers mount a Secret)."""
    pod = served_without_token(name)
    pod["spec"]["automountServiceAccountToken"] = True
    return _with_token(pod)


def served_with_inits(name: str) -> Manifest:
    """The default pod with five init containers that exit at once."""
    pod = served_without_token(name)
    pod["spec"] |= {"initContainers": _inits(), "automountServiceAccountToken": True}
    return _with_token(pod)


def talking(name: str) -> list[Manifest]:
    """One container that prints a line and exits on SIGTERM at once."""
    pod = _pod(name)
    pod["spec"]["containers"][0]["command"] = _TALKING
    return [pod]


def talking_with_volumes(name: str) -> list[Manifest]:
    """The same with volumes, in the form that podman 4.3 takes: it crashes if ``optional`` of a Secret is not set."""
    config, secret, pod = with_volumes(name)
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in secret.pop("stringData").items()}
    pod["spec"]["volumes"][1]["secret"]["optional"] = False
    pod["spec"]["containers"][0]["command"] = _TALKING
    return [config, secret | {"data": encoded}, pod]


def _pod(name: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": "bench"}},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{**_container("main"), "command": _SLEEP}],
        },
    }


def _container(name: str) -> Manifest:
    return {"name": name, "image": IMAGE, "imagePullPolicy": "IfNotPresent"}


def _with_token(pod: Manifest) -> Manifest:
    sources = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]
    name, spec = "kube-api-access", pod["spec"]
    spec["volumes"] = [{"name": name, "projected": {"defaultMode": 0o644, "sources": sources}}]
    mount = {"name": name, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        container["volumeMounts"] = [mount]
    return pod


def _inits() -> list[Manifest]:
    return [{**_container(f"init-{number}"), "command": ["/bin/true"]} for number in range(INIT_CONTAINERS)]


def _with(pod: Manifest, volumes: list[Manifest]) -> Manifest:
    pod["spec"]["volumes"] = volumes
    mounts = [{"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in volumes]
    pod["spec"]["containers"][0]["volumeMounts"] = mounts
    return pod


def _entries(prefix: str) -> dict[str, str]:
    return {f"{prefix}-{number}": f"value {number}" for number in range(4)}
