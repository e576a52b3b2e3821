"""Private images on a real runtime and registry: credential provider plugins, and the use of present images."""

import base64
import json
from pathlib import Path

import pytest

from pykubelet.kubelet.actuate.images.plan.pull_records import file_name
from pykubelet.testing.agent import AgentProcess, waiting_reason
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.registry import Registry
from pykubelet.testing.runtime import PrivateRuntime
from tests.manifests import Json, container, pod

pytestmark = [pytest.mark.root, pytest.mark.runtime]

_VERSION = "credentialprovider.kubelet.k8s.io/v1"


def add_plugin(directory: Path, registry: Registry) -> tuple[str, ...]:
    """Write a plugin that knows the registry's password, and return the agent's flags."""
    user, _, password = registry.password.partition(":")
    auth = {registry.host: {"username": user, "password": password}}
    answer = {"kind": "CredentialProviderResponse", "apiVersion": _VERSION, "cacheKeyType": "Registry", "auth": auth}
    program, config = directory / "bin" / "test-plugin", directory / "providers.json"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ncat >>{directory}/requests\necho '{json.dumps(answer)}'\n")
    program.chmod(0o755)
    provider = {
        "name": "test-plugin",
        "apiVersion": _VERSION,
        "matchImages": [f"{registry.host}/plugin"],
        "defaultCacheDuration": "1h",
    }
    kind = {"kind": "CredentialProviderConfig", "apiVersion": "kubelet.config.k8s.io/v1"}
    config.write_text(json.dumps({**kind, "providers": [provider]}))
    return (
        *("--image-credential-provider-config", str(config)),
        *("--image-credential-provider-bin-dir", str(program.parent)),
    )


def login(name: str, registry: Registry) -> Json:
    """A pull secret for the registry."""
    auth = base64.b64encode(registry.password.encode()).decode()
    text = json.dumps({"auths": {registry.host: {"auth": auth}}})
    kind = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson"}
    return {**kind, "metadata": {"name": name}, "stringData": {".dockerconfigjson": text}}


def test_private_images_are_for_pods_that_may_pull_them(
    isolation: Isolation, daemon: PrivateRuntime, tmp_path: Path
) -> None:
    with Registry(tmp_path) as registry:
        registry.password = "anna:secret-word"
        plugged, own = registry.add("plugin/app", files={"plugged": b"x"}), registry.add("own/app", files={"own": b"x"})
        home = isolation.home / "private"
        flags = add_plugin(tmp_path, registry)
        agent = AgentProcess(home, daemon.endpoint, isolation.cgroup_root, flags=flags)
        try:
            agent.start()
            secrets = [{"name": "login"}]
            agent.write(
                "private.json",
                login("login", registry),
                pod("plugged", container(image=plugged)),
                pod("owner", container(image=own), imagePullSecrets=secrets),
            )
            agent.wait_running("plugged", "owner", timeout=60)
            (request,) = (tmp_path / "requests").read_text().splitlines()
            assert json.loads(request)["image"] == plugged.removesuffix(":1")

            agent.kill()  # the records are on the disk
            agent.start()
            before = len(registry.requests)
            agent.write(
                "more.json",
                pod("other", container(image=own)),
                pod("second", container(image=own, imagePullPolicy="Never"), imagePullSecrets=secrets),
                pod("third", container(image=plugged, imagePullPolicy="Never")),
            )
            agent.wait_running("second", "third", timeout=60)
            agent.wait_pod("other", lambda p: waiting_reason(p) in ("ErrImagePull", "ImagePullBackOff"), timeout=60)
            assert len(registry.requests) > before, "the other pod had to ask the registry"

            records = home / "root" / "image_manager"
            mappings = [json.loads(path.read_text())["credentialMapping"] for path in (records / "pulled").iterdir()]
            found = {repository: used for mapping in mappings for repository, used in mapping.items()}
            assert found[plugged.removesuffix(":1")] == {"nodePodsAccessible": True}
            assert [each["name"] for each in found[own.removesuffix(":1")]["kubernetesSecrets"]] == ["login"]
            assert not (records / "pulling" / file_name(plugged)).exists()
            assert "secret-word" not in agent.log.read_text()
            agent.remove_all_pods()
            assert agent.stop() == 0
        finally:
            agent.destroy()
