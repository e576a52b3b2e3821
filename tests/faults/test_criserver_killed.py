"""SIGKILL of the runtime server at each step of each call, and its restart: nothing is lost, duplicated or leaked.

This module tests the life cycle of a pod, and images; ``test_criserver_killed_calls.py`` calls about a running pod.
"""

import asyncio
import os
import random
from pathlib import Path

import pytest

from pykubelet.cli.client.image_client import ImageClient
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.agent import wait_for
from pykubelet.testing.killstage import Act, Flavour, Pod, Stage
from pykubelet.testing.leakcheck import snapshot
from pykubelet.testing.ociimage import ImageSpec, pack
from pykubelet.testing.registry import Registry
from pykubelet.testing.signing import claim, new_signer

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.slow, pytest.mark.timeout(1800)]


def _act(pod: Pod, name: str) -> Act:
    return pod.up if name == "up" else pod.down


@pytest.mark.parametrize("flavour", Flavour)
@pytest.mark.parametrize("name", ["up", "down"])
def test_server_killed_at_each_step_of_a_life_loses_no_container(
    stage: Stage, name: str, flavour: Flavour, kills: int, luck: random.Random
) -> None:
    """``up``: RunPodSandbox, CreateContainer, StartContainer. ``down``: StopContainer to RemovePodSandbox."""

    def prepared(number: int) -> Pod:
        pod = Pod(stage, f"{name}-{flavour}-{number}", flavour)
        if name == "down":
            stage.do(pod.up)
            pod.assert_ran_once()
        return pod

    first = prepared(0)
    total = stage.steps(_act(first, name))
    stage.do(first.down)
    before = snapshot(stage.scope)
    chosen = sorted(luck.sample(range(1, total + 1), min(kills, total)))
    died = 0
    for step in chosen:
        pod = prepared(step)
        died += stage.killed(_act(pod, name), step)
        print(f"{died} killed, last step {stage.last_step()}")
        stage.server.start()
        if name == "up":
            stage.do(pod.up)
        pod.assert_ran_once()
        stage.do(pod.down)
        stage.assert_no_leaks(before)
    print(f"{died} kills at {len(chosen)} of {total} steps: 0 lost, 0 doubled, 0 leaked")
    assert died >= 0.8 * len(chosen) - 1, "the steps are counted wrongly"


def test_container_never_started_is_removed_after_a_kill_at_each_step(
    stage: Stage, kills: int, luck: random.Random
) -> None:
    """A pre-created container that is never started is removed with its processes, and its program never runs."""

    def life(pod: Pod) -> Act:
        async def act(client: CriClient) -> None:
            assert await pod.make(client) == pb.CONTAINER_CREATED
            await asyncio.sleep(luck.choice((0, 0.05)))
            await pod.down(client)

        return act

    total = stage.steps(life(Pod(stage, "unstarted-0")))
    before = snapshot(stage.scope)
    chosen = sorted(luck.sample(range(1, total + 1), min(kills, total)))
    died = 0
    for step in chosen:
        pod = Pod(stage, f"unstarted-{step}")
        died += stage.killed(life(pod), step)
        print(f"{died} killed, last step {stage.last_step()}")
        stage.server.start()
        stage.do(pod.down)
        assert pod.runs == 0
        stage.assert_no_leaks(before)
    print(f"{died} kills at {len(chosen)} of {total} steps: 0 leaked, 0 run")
    assert died >= 0.7 * len(chosen) - 1, "the steps are counted wrongly"


@pytest.mark.parametrize("name", ["pull", "import", "remove", "pull-signed-artifact"])
def test_image_call_killed_at_each_step_leaves_a_usable_store(
    stage: Stage, name: str, kills: int, luck: random.Random, tmp_path: Path
) -> None:
    """PullImage with its unpacking, the import of an archive, RemoveImage; PullImage of a signed artifact."""
    files = {f"directory-{number}/file": bytes([number]) * 10_000 for number in range(3)}
    archive = tmp_path / "image.tar"
    with Registry(tmp_path) as registry:
        if name == "pull-signed-artifact":
            title = "org.opencontainers.image.title"
            blobs = [registry.describe(data, "text/plain", **{title: path}) for path, data in files.items()]
            image = registry.add_artifact("killed", blobs)
            signer, digest = new_signer(), registry.digest("killed", "1")
            (stage.server.home / "k.pub").write_bytes(signer.pem)
            policy = f'[images."{registry.host}"]\npolicy = "require"\nkeys = ["k.pub"]\n'
            (stage.server.home / "image-policy.toml").write_text(policy)
            payload = claim(f"{registry.host}/killed", digest)
            registry.add_signature("killed", digest, payload, signer.sign(payload))
        else:
            image = registry.add("killed", files=files)
            pack(ImageSpec(image, files=files), archive, os.uname().machine)

        async def pull(client: CriClient) -> None:
            await client.pull_image(pb.ImageSpec(image=image))
            assert await client.image_status(pb.ImageSpec(image=image)) is not None

        async def import_(client: CriClient) -> None:
            with ImageClient(stage.server.endpoint) as importer:
                importer.import_archive([archive.read_bytes()], (), lambda _: None)
            assert await client.image_status(pb.ImageSpec(image=image)) is not None

        async def remove(client: CriClient) -> None:
            await client.remove_image(pb.ImageSpec(image=image))
            assert await client.image_status(pb.ImageSpec(image=image)) is None

        act: Act = {"pull": pull, "import": import_, "remove": remove}[name.partition("-")[0]]
        stage.do(pull)
        stage.do(remove)
        stage.wait_for_deletion()
        before = stage.stored()
        if act is remove:
            stage.do(pull)
        total = stage.steps(act)
        stage.do(remove)
        chosen = luck.sample(range(1, total + 1), min(kills, total))
        died = 0
        for step in chosen:
            if act is remove:
                stage.do(pull)
            died += stage.killed(act, step)
            print(f"{died} killed, last step {stage.last_step()}")
            stage.server.start()
            # Blobs that a killed removal has left count as those of an interrupted pull, until the next removal.
            stage.do(pull if act is remove else act)
            stage.do(remove)
            stage.wait_for_deletion()
            wait_for(lambda: stage.stored() == before, 10, lambda: f"left: {stage.stored() ^ before}")
    print(f"{died} kills at {len(chosen)} of {total} steps: 0 lost, 0 leaked")
    assert died >= 0.7 * len(chosen) - 1, "the steps are counted wrongly"
