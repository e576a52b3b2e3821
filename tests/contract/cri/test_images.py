"""Contract of images, pulled from a registry on loopback, on ``pykubelet criserver`` and on containerd."""

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import grpc
import pytest

from pykubelet.base.errors import NotFound, PykubeletError
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.types.ids import SandboxID
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.registry import Registry
from pykubelet.testing.wait import until
from tests.contract.cri.rig import ENDPOINT, HAVE_REAL, IMAGE, STUBBORN, Runtime

pytestmark = [
    pytest.mark.runtime,
    pytest.mark.skipif(not HAVE_REAL, reason=f"the CRI contract needs a runtime: set {ENDPOINT} and {IMAGE}"),
]


class OwnRegistry(Registry):
    """A registry with images that share no layers with others, so that removing them does not affect others."""

    def add(self, repository: str, tag: str = "1", **fields: object) -> str:
        files = fields.get("files", {})
        assert isinstance(files, dict)
        return super().add(repository, tag, **{**fields, "files": {"/registry": self.host.encode(), **files}})


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with OwnRegistry(tmp_path) as running:
        yield running


@pytest.fixture
async def client(registry: Registry) -> AsyncIterator[CriClient]:
    """Images pulled from the registry are removed afterwards."""
    async with CriClient.connect(os.environ[ENDPOINT]) as connected:
        yield connected
        for image in await connected.list_images():
            if any(registry.host in name for name in (*image.repo_tags, *image.repo_digests)):
                await connected.remove_image(pb.ImageSpec(image=image.id))


def spec(name: str) -> pb.ImageSpec:
    return pb.ImageSpec(image=name)


async def names(client: CriClient, image: str) -> tuple[list[str], list[str]]:
    found = await client.image_status(spec(image))
    assert found is not None
    return sorted(found.repo_tags), sorted(found.repo_digests)


async def test_real_a_pulled_image_is_found_by_all_its_names(client: CriClient, registry: Registry) -> None:
    reference = registry.add("team/app", "1", user="1000:2000")
    digest = f"{registry.host}/team/app@{registry.digest('team/app', '1')}"
    ref = await client.pull_image(spec(reference))
    image = await client.image_status(spec(reference))
    assert image is not None and image.id.startswith("sha256:") and ref == image.id
    assert (list(image.repo_tags), list(image.repo_digests)) == ([reference], [digest])
    assert image.size > 100_000 and image.uid.value == 1000 and not image.username and not image.pinned
    for name in (image.id, digest):
        found = await client.image_status(spec(name))
        assert found is not None and found.id == image.id
    assert image.id in {one.id for one in await client.list_images()}
    assert image.id in {one.id for one in await client.list_images(pb.ImageFilter(image=spec(reference)))}
    assert await client.pull_image(spec(reference)) == ref


async def test_real_users_by_name(client: CriClient, registry: Registry) -> None:
    reference = registry.add("named", user="app")
    await client.pull_image(spec(reference))
    image = await client.image_status(spec(reference))
    assert image is not None and image.username == "app" and not image.HasField("uid")


async def test_real_labels_are_in_the_verbose_status(client: CriClient, registry: Registry) -> None:
    """CRI has no field for them; crictl and other clients read them from the verbose status."""
    reference = registry.add("labelled", labels={"org.example/purpose": "to be read", "empty": ""})
    await client.pull_image(spec(reference))
    async with grpc.aio.insecure_channel(os.environ[ENDPOINT]) as channel:
        ask = channel.unary_unary(
            "/runtime.v1.ImageService/ImageStatus",
            request_serializer=pb.ImageStatusRequest.SerializeToString,
            response_deserializer=pb.ImageStatusResponse.FromString,
        )
        reply = await ask(pb.ImageStatusRequest(image=spec(reference), verbose=True))
    labels = json.loads(reply.info["info"])["imageSpec"]["config"]["Labels"]
    assert labels == {"org.example/purpose": "to be read", "empty": ""}


async def test_real_pull_by_digest_names_the_image_by_digest_only(client: CriClient, registry: Registry) -> None:
    registry.add("team/app")
    by_digest = f"{registry.host}/team/app@{registry.digest('team/app', '1')}"
    await client.pull_image(spec(by_digest))
    assert await names(client, by_digest) == ([], [by_digest])
    assert await client.image_status(spec(registry.reference("team/app"))) is None


async def test_real_two_tags_of_one_image_and_a_tag_that_moves(client: CriClient, registry: Registry) -> None:
    one, two = registry.add("app", "1"), registry.add("app", "2")
    first = await client.pull_image(spec(one))
    assert await client.pull_image(spec(two)) == first
    assert (await names(client, first))[0] == [one, two]
    registry.add("app", "1", files={"/new": b"1"})
    newer = await client.pull_image(spec(one))
    assert newer != first
    assert (await names(client, first))[0] == [two] and (await names(client, newer))[0] == [one]


@pytest.mark.parametrize("by", ["tag", "digest", "id"])
async def test_real_removal_takes_all_names(client: CriClient, registry: Registry, by: str) -> None:
    one, two = registry.add("app", "1"), registry.add("app", "2")
    image = await client.pull_image(spec(one))
    await client.pull_image(spec(two))
    digest = f"{registry.host}/app@{registry.digest('app', '1')}"
    for _ in range(2):
        await client.remove_image(spec({"tag": one, "digest": digest, "id": image}[by]))
        for name in (one, two, digest, image):
            assert await client.image_status(spec(name)) is None
    assert await client.pull_image(spec(one)) == image


async def test_real_an_image_in_use_can_be_removed_and_its_container_goes_on(
    client: CriClient, registry: Registry, tmp_path: Path
) -> None:
    reference = registry.add("used")
    image = await client.pull_image(spec(reference))
    (tmp_path / "logs").mkdir()
    runtime = Runtime(client, reference, tmp_path / "logs")
    try:
        container = await runtime.start(STUBBORN)
        await client.remove_image(spec(reference))
        assert await client.image_status(spec(image)) is None
        result = await client.exec_sync(container, ["cat", "/etc/passwd"], 10)
        assert result.exit_code == 0 and b"root:" in result.stdout
        assert (await runtime.status(container)).state == pb.CONTAINER_RUNNING
        with pytest.raises(PykubeletError, match="used"):
            await runtime.create(SandboxID(runtime.sandboxes[0]), STUBBORN, attempt=1)
    finally:
        await runtime.clean()


async def test_real_a_container_is_what_its_image_says(client: CriClient, registry: Registry, tmp_path: Path) -> None:
    """Entry point, arguments, variables, user, groups, directory, volume, stop signal; the request overrides them."""
    script = 'echo "$0 $* $KEPT $OVER $(id -u):$(id -g):$(id -G) $PWD $HOME"; ls -A /data | wc -l;' + (
        'trap "echo asked; exit 9" USR1; while :; do sleep 0.05; done'
    )
    reference = registry.add(
        "says",
        entrypoint=("/bin/sh", "-c", script, "entry"),
        command=("given",),
        environment=("PATH=/bin", "KEPT=kept", "OVER=image"),
        user="app",
        working_dir="/work/deep",
        volumes=("/data",),
        stop_signal="SIGUSR1",
    )
    await client.pull_image(spec(reference))
    (tmp_path / "logs").mkdir()
    runtime = Runtime(client, reference, tmp_path / "logs")
    try:
        config = runtime.container_config(STUBBORN)
        config.ClearField("command")
        config.args.extend(["own", "words"])
        config.envs.add(key="OVER", value=b"request")
        container = await client.create_container(await runtime.sandbox(), config, runtime.pod_config())
        await client.start_container(container)
        log = Path((await runtime.status(container)).log_path)
        await until(lambda: log.read_text().count("\n") >= 2)
        await client.stop_container(container, 20)
        status = await runtime.ended(container)
        first, second, last = (line.split(" ", 3)[3] for line in log.read_text().splitlines())
        # containerd 1.6 ignores the groups of an image's user in /etc/group.
        groups = "1000 2000" if await runtime.is_ours() else "1000"
        assert first == f"entry own words kept request 1000:1000:{groups} /work/deep /"
        assert (second, last, status.exit_code) == ("0", "asked", 9)
    finally:
        await runtime.clean()


async def test_real_pull_of_missing_image_is_not_found(client: CriClient, registry: Registry) -> None:
    missing = registry.reference("none")
    with pytest.raises(NotFound, match="none"):
        await client.pull_image(spec(missing))
    registry.add("app")
    with pytest.raises(NotFound, match="app:2"):
        await client.pull_image(spec(registry.reference("app", "2")))
    assert await client.image_status(spec(missing)) is None


async def test_real_pull_from_unavailable_registry_fails_and_names_the_image(client: CriClient) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        reference = f"127.0.0.1:{unused.getsockname()[1]}/app:1"
        with pytest.raises(PykubeletError, match=reference):
            await client.pull_image(spec(reference))


async def test_real_invalid_references_are_refused(client: CriClient) -> None:
    for reference in ("", "UPPER/case:1", "a b", "app@sha256:123", "http://127.0.0.1/app:1"):
        with pytest.raises(PykubeletError):
            await client.pull_image(spec(reference))


async def test_pull_succeeds_only_with_the_right_credentials(client: CriClient, registry: Registry) -> None:
    reference = registry.add("private")
    registry.password = "alice:s3cret"
    with pytest.raises(PykubeletError, match="private"):
        await client.pull_image(spec(reference))
    with pytest.raises(PykubeletError, match="private"):
        await client.pull_image(spec(reference), pb.AuthConfig(username="alice", password="guessed"))
    await client.pull_image(spec(reference), pb.AuthConfig(username="alice", password="s3cret"))
    await client.remove_image(spec(reference))
    await client.pull_image(spec(reference), pb.AuthConfig(auth="YWxpY2U6czNjcmV0"))


async def test_real_concurrent_pulls(client: CriClient, registry: Registry) -> None:
    references = [registry.add("app", str(number), files={f"/{number}": b"x"}) for number in range(3)]
    async with asyncio.TaskGroup() as group:
        pulls = [group.create_task(client.pull_image(spec(reference))) for reference in references * 2]
    ids = [pull.result() for pull in pulls]
    assert ids[:3] == ids[3:] and len(set(ids)) == 3


async def test_real_pull_continues_after_its_client_disconnects(client: CriClient, registry: Registry) -> None:
    reference = registry.add("slow")
    registry.hold()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await client.pull_image(spec(reference))
    registry.release()
    assert await client.pull_image(spec(reference))


async def test_real_the_file_system_of_images(client: CriClient, registry: Registry) -> None:
    await client.pull_image(spec(registry.add("app")))
    (usage,) = (await client.image_fs_info()).image_filesystems
    assert Path(usage.fs_id.mountpoint).is_dir()
    assert usage.used_bytes.value > 100_000 and usage.inodes_used.value > 0 and usage.timestamp > 0


@pytest.mark.parametrize("sub_path", ["", "etc", "missing"])
async def test_real_an_image_as_a_volume(client: CriClient, registry: Registry, tmp_path: Path, sub_path: str) -> None:
    """As in KEP-4639; supported by containerd since 2.1."""
    reference = registry.add("data", files={"/etc/greeting": b"hello"})
    await client.pull_image(spec(reference))
    (tmp_path / "logs").mkdir()
    runtime = Runtime(client, os.environ[IMAGE], tmp_path / "logs")
    try:
        sandbox = await runtime.sandbox()
        config = runtime.container_config(STUBBORN)
        mount = config.mounts.add(container_path="/data", readonly=True, image_sub_path=sub_path)
        mount.image.image = reference
        try:
            container = await client.create_container(sandbox, config, runtime.pod_config())
        except PykubeletError:
            assert sub_path == "missing" or (await client.version()).runtime_name == "containerd"
            return
        await client.start_container(container)
        greeting = "/data/greeting" if sub_path else "/data/etc/greeting"
        result = await client.exec_sync(container, ["cat", greeting], 10)
        assert (result.exit_code, result.stdout) == (0, b"hello")
        assert (await client.exec_sync(container, ["touch", "/data/x"], 10)).exit_code != 0
        await client.remove_image(spec(reference))
        assert (await client.exec_sync(container, ["cat", greeting], 10)).exit_code == 0
    finally:
        await runtime.clean()
