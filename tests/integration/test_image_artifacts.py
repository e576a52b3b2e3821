"""OCI artifacts as image volumes: pods read their files; containers cannot be created from them."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pykubelet.testing.agent import AgentProcess, container_status, environment, waiting_reason
from pykubelet.testing.registry import Registry
from pykubelet.testing.runtime import PrivateRuntime
from tests.manifests import Apply, Json, container, pod

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.only_on("criserver")]

_TITLE = "org.opencontainers.image.title"


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with Registry(tmp_path) as registry:
        registry.password = "anna:secret-word"
        yield registry


def _artifact(registry: Registry, repository: str, files: Mapping[str, bytes]) -> str:
    own = {"own": registry.host.encode(), **files}
    return registry.add_artifact(
        repository, [registry.describe(data, "application/x-any", **{_TITLE: name}) for name, data in own.items()]
    )


def _login(registry: Registry) -> Json:
    user, _, password = registry.password.partition(":")
    login = json.dumps({"auths": {registry.host: {"username": user, "password": password}}})
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "login"},
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": login},
    }


def _volume(name: str, reference: str) -> Json:
    return {"name": name, "image": {"reference": reference}}


def _image(daemon: PrivateRuntime, *arguments: str) -> str:
    command = [sys.executable, "-m", "pykubelet.cli", "image", "--endpoint", daemon.endpoint, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment(), check=True).stdout


def test_pod_reads_the_files_of_an_artifact(
    agent: AgentProcess, apply: Apply, registry: Registry, daemon: PrivateRuntime
) -> None:
    data = bytes(range(256)) * 2000
    reference = _artifact(registry, "models/small", {"weights/model.bin": data, "weights/notes.txt": b"notes"})
    mounts = [
        {"name": "model", "mountPath": "/model"},
        {"name": "model", "mountPath": "/notes", "subPath": "weights"},
    ]
    user = {"runAsUser": 1000}
    apply(
        "reader",
        _login(registry),
        pod(
            "reader",
            container(volumeMounts=mounts, securityContext=user),
            volumes=[_volume("model", reference)],
            imagePullSecrets=[{"name": "login"}],
        ),
    )
    agent.wait_running("reader", timeout=60)
    assert agent.exec("reader", "wc -c < /model/weights/model.bin").strip() == str(len(data))
    assert agent.exec("reader", "cat /notes/notes.txt /model/own") == f"notes{registry.host}"
    assert agent.exec("reader", "ls /model").split() == ["own", "weights"]
    assert "Read-only" in agent.exec("reader", "touch /model/weights/x 2>&1 || true")
    agent.wait_event("reader", "Pulled", reference)

    assert reference.rpartition(":")[0] in _image(daemon, "ls")
    (details,) = json.loads(_image(daemon, "inspect", reference))
    digest = registry.digest("models/small", "1")
    assert details["status"]["id"] == digest
    assert details["status"]["repoDigests"] == [f"{reference.rpartition(':')[0]}@{digest}"]
    assert "application/vnd.example.files" in json.dumps(details)
    apply("reader")
    agent.wait_gone("reader")
    _image(daemon, "rm", reference)
    assert registry.host not in _image(daemon, "ls")


def test_container_of_an_artifact_is_refused(agent: AgentProcess, apply: Apply, registry: Registry) -> None:
    registry.password = ""
    reference = _artifact(registry, "no/image", {})
    hostile = _artifact(registry, "hostile", {"../../etc/hostile": b"x"})
    apply("from", pod("from", container(image=reference)))
    apply(
        "leaves",
        pod("leaves", container(volumeMounts=[{"name": "v", "mountPath": "/v"}]), volumes=[_volume("v", hostile)]),
    )
    seen = agent.wait_pod("from", lambda pod: waiting_reason(pod) == "CreateContainerError")
    state = container_status(seen).state
    assert state is not None and state.waiting is not None
    assert "is an artifact of type application/vnd.example.files" in (state.waiting.message or "")
    agent.wait_event("leaves", "Failed", "must not have empty components")
