"""The pods of the node under test, as manifests. Pure.

Every container records on the host when its program begins. No pod refers to objects of a cluster, so that every
agent can run them as static pods.
"""

from collections.abc import Mapping
from typing import Any

from benchmarks.faults.judge import VICTIM, Goal, WantedPod

IMAGE = "localhost/pykubelet/faults:1"
Manifest = dict[str, Any]

_STAY = "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"
_NOTE = "echo run >>/notes/{pod}.{name}"
ROLLING = "rolling"
"""The kind of pod that each try replaces by a new one."""
_KINDS: Mapping[str, WantedPod] = {
    "plain": WantedPod(("main",)),
    "volumes": WantedPod(("main", "second")),
    "shared": WantedPod(("main", "second")),
    "hostnet": WantedPod(("main",)),
    "never": WantedPod(("main",), restarts=False),
    "onfailure": WantedPod(("main",)),
    "done": WantedPod(("main",), Goal.END, restarts=False),
    VICTIM: WantedPod(("main",)),
    ROLLING: WantedPod(("main",)),
}
KEPT = tuple(kind for kind in _KINDS if kind != ROLLING)
"""The kinds of pods that exist during all tries of a fault."""


def wanted(kind: str) -> WantedPod:
    """The desired state of a pod of that kind."""
    return _KINDS[kind]


def manifest(kind: str, name: str, notes: str, image: str = IMAGE) -> Manifest:
    """A pod of that kind; ``notes`` is the host's directory for the records of starts."""
    want = _KINDS[kind]
    script = "exit 0" if want.ends else _STAY
    spec: Manifest = {
        "terminationGracePeriodSeconds": 2,
        "volumes": [{"name": "notes", "hostPath": {"path": notes}}],
        "containers": [container(each, f"{_NOTE.format(pod=name, name=each)}; {script}") for each in want.containers],
    }
    for each in spec["containers"]:
        each["image"] = image
    match kind:
        case "volumes":
            _add_volumes(spec)
        case "shared":
            spec["shareProcessNamespace"] = True
        case "hostnet":
            spec |= {"hostNetwork": True, "hostIPC": True}
        case "never" | "done":
            spec["restartPolicy"] = "Never"
        case "onfailure":
            spec["restartPolicy"] = "OnFailure"
    return pod(name, spec)


def pod(name: str, spec: Manifest) -> Manifest:
    """A pod with that spec."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def container(name: str, script: str, **fields: object) -> Manifest:
    """A container that runs a shell script and can record its start."""
    return {
        "name": name,
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", script],
        "volumeMounts": [{"name": "notes", "mountPath": "/notes"}],
        **fields,
    }


def _add_volumes(spec: Manifest) -> None:
    item = {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}
    spec["volumes"] += [
        {"name": "disk", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        {"name": "downward", "downwardAPI": {"items": [item]}},
    ]
    for each in spec["containers"]:
        each["volumeMounts"] += [
            {"name": "disk", "mountPath": "/disk", "subPath": "a"},
            {"name": "memory", "mountPath": "/memory"},
            {"name": "downward", "mountPath": "/downward"},
        ]
