"""Credentials of pods, the node's files and plugins, in the order of their use."""

import asyncio
import base64
import json
from pathlib import Path

from pykubelet.kubelet.actuate.actuate_types import ImageReason
from pykubelet.kubelet.actuate.images.plan.keyring import RegistryCredentials
from pykubelet.kubelet.actuate.images.pod_credentials import RequestCredentials
from pykubelet.kubelet.config.credential_providers import CredentialProvider, CredentialProviders
from pykubelet.models.core_v1 import Secret
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.testing.fake_cri import FakeImage
from pykubelet.testing.wait import until
from tests.unit.kubelet.actuate.images.kit import KIND, Kit, container, pod


def add_plugin(kit: Kit, directory: Path, body: str, *match_images: str) -> None:
    """Give the node a plugin that is this shell script."""
    path = directory / "plugin"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    version = "credentialprovider.kubelet.k8s.io/v1"
    provider = CredentialProvider(
        name="plugin", match_images=match_images, default_cache_duration="1h", api_version=version
    )
    kit.plugins = CredentialProviders(directory, (provider,), "sha256:ab")


def answer(user: str) -> str:
    auth = {"r.io": {"username": user, "password": "pw"}}
    version = "credentialprovider.kubelet.k8s.io/v1"
    document = {"kind": "CredentialProviderResponse", "apiVersion": version, "cacheKeyType": "Image", "auth": auth}
    return f"echo '{json.dumps(document)}'"


async def test_pod_node_and_plugin_are_tried_in_this_order(kit: Kit, tmp_path: Path) -> None:
    kit.secrets.add("own", "r.io", "pod", "pw")
    kit.node = (tmp_path / "config.json",)
    kit.node[0].write_text(json.dumps({"auths": {"r.io": {"auth": base64.b64encode(b"node:pw").decode()}}}))
    add_plugin(kit, tmp_path, answer("plugin"), "r.io")
    manager = kit.manager()
    for user, attempts in (("plugin", 3), ("node", 2), ("pod", 1)):
        kit.cri.log.clear()
        kit.cri.publish_image(f"r.io/team/{user}:1", FakeImage(f"sha256:{user}", [], auth=(user, "pw")))
        await manager.ensure(pod("p", ["own"]), container(f"r.io/team/{user}:1"), KIND)
        assert len(kit.cri.calls("PullImage")) == attempts


async def test_hanging_plugin_delays_only_images_that_match_it(kit: Kit, tmp_path: Path) -> None:
    kit.cri.publish_image("r.io/app:1")
    kit.cri.publish_image("other.io/app:1")
    add_plugin(kit, tmp_path, 'touch "$0.started"; exec sleep 1000', "r.io")
    manager = kit.manager()
    slow = asyncio.create_task(manager.ensure(pod("slow"), container("r.io/app:1"), KIND))
    await until((tmp_path / "plugin.started").exists)
    await manager.ensure(pod("quick"), container("other.io/app:1"), KIND)
    assert not slow.done()
    slow.cancel()
    await asyncio.wait((slow,))
    assert slow.cancelled()


async def test_credentials_of_the_node_are_tried_after_those_of_the_pod(kit: Kit, tmp_path: Path) -> None:
    kit.cri.publish_image("r.io/team/app:1", FakeImage("sha256:1", [], auth=("good", "pw")))
    kit.secrets.add("own", "r.io/team", "bad", "pw")
    kit.node = (tmp_path / "config.json",)
    auth = base64.b64encode(b"good:pw").decode()
    kit.node[0].write_text(json.dumps({"auths": {"r.io": {"auth": auth}}}))
    manager = kit.manager()
    assert await manager.ensure(pod("p", ["own"]), container("r.io/team/app:1"), KIND) == "sha256:1"
    assert len(kit.cri.calls("PullImage")) == 2
    assert await manager.ensure(pod("q"), container("r.io/team/app:1", "Always"), KIND) == "sha256:1"


async def test_a_missing_secret_is_an_event_and_the_pull_is_tried(kit: Kit) -> None:
    kit.cri.publish_image("app:1")
    await kit.manager().ensure(pod("p", ["gone", ""]), container("app:1"), KIND)
    assert (
        "Warning",
        "FailedToRetrieveImagePullSecret",
        "Unable to retrieve some image pull secrets (gone); attempting to pull the image may not succeed.",
    ) in kit.recorder.events


async def test_a_broken_secret_fails_the_pull_by_name(kit: Kit) -> None:
    kit.secrets.found["bad"] = Secret(
        metadata=ObjectMeta(name="bad", namespace="shop"),
        type="kubernetes.io/dockerconfigjson",
        data={".dockerconfigjson": b"hunter2"},
    )
    error = await kit.fails(kit.manager(), pod("p", ["bad"]), container("app:1"))
    assert error.reason is ImageReason.ERR_IMAGE_PULL
    assert "pull secret shop/bad" in error.message
    assert "hunter2" not in error.message


async def test_credentials_of_a_request_are_looked_up_when_they_are_needed_and_once() -> None:
    found = (RegistryCredentials("user", "pw"),)
    look_ups: list[int] = []

    async def look_up() -> tuple[RegistryCredentials, ...]:
        look_ups.append(1)
        return found

    credentials = RequestCredentials(look_up)
    assert look_ups == []
    assert (await credentials.get(), await credentials.get()) == (found, found)
    assert look_ups == [1]
