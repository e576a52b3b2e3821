"""Pulls of artifacts: listed, found, counted, removed, exported and imported like images."""

import io
import json
from pathlib import Path

import pytest

from pykubelet.base.clock import SystemClock
from pykubelet.base.errors import Invalid
from pykubelet.criserver.images import manifests
from pykubelet.criserver.server.cri_calls.images import ImageCalls
from pykubelet.pb import runtime_v1_pb2 as pb
from tests.unit.criserver.images.fakeregistry import FakeRegistry, digest
from tests.unit.criserver.images.served import NoContainers
from tests.unit.criserver.images.world import World

_TITLE = "org.opencontainers.image.title"
_TYPE = "application/vnd.example.files"


def _artifact(registry: FakeRegistry, *names: str, **fields: object) -> str:
    """Add an artifact as ``app:1``, with a file of each name; returns the manifest's digest."""
    layers = [
        {**registry.descriptor("text/plain", f"content of {name}".encode()), "annotations": {_TITLE: name}}
        for name in names
    ]
    empty = {
        "mediaType": "application/vnd.oci.empty.v1+json",
        "digest": manifests.EMPTY_DIGEST,
        "size": 2,
        "data": "e30=",
    }
    body = {
        "schemaVersion": 2,
        "mediaType": manifests.OCI_MANIFEST,
        "artifactType": _TYPE,
        "config": empty,
        "layers": layers,
        "subject": {"mediaType": manifests.OCI_MANIFEST, "digest": digest(b"other"), "size": 5},
    }
    return registry.add_manifest("app:1", manifests.OCI_MANIFEST, json.dumps({**body, **fields}).encode())


def test_empty_configuration_is_that_of_the_specification() -> None:
    assert digest(manifests.EMPTY) == manifests.EMPTY_DIGEST


async def test_artifact_is_pulled_shown_and_removed_like_an_image(registry: FakeRegistry, tmp_path: Path) -> None:
    manifest = _artifact(registry, "a.txt", "b/c.txt")
    world, name = World(tmp_path), f"{registry.host}/app"
    pulled = await world.images.pull(f"{name}:1")
    world.check(pulled)
    assert (pulled.id, pulled.tags, pulled.digests) == (manifest, (f"{name}:1",), (f"{name}@{manifest}",))
    assert [layer.file for layer in pulled.stack] == ["a.txt", "b/c.txt"]
    assert pulled.size == sum(len(world.content.path(blob).read_bytes()) for blob in pulled.blobs)
    assert not [path for path, *_ in registry.seen if manifests.EMPTY_DIGEST in path], "it needs no transfer"

    calls = ImageCalls(world.images, NoContainers(), clock=SystemClock())
    (listed,) = (await calls.listed(pb.ListImagesRequest())).images
    assert (listed.id, listed.size, list(listed.repo_tags)) == (manifest, pulled.size, [f"{name}:1"])
    status = await calls.status(pb.ImageStatusRequest(image=pb.ImageSpec(image=f"{name}:1"), verbose=True))
    details = json.loads(status.info["info"])
    assert details["artifactType"] == _TYPE and [each["file"] for each in details["layers"]] == ["a.txt", "b/c.txt"]

    assert World(tmp_path).images.status(manifest[:20]) == pulled, "another server reads the same"
    await world.images.remove(manifest)
    assert world.content.digests() == set() and world.images.list() == []


async def test_two_artifacts_without_configuration_are_two_images(registry: FakeRegistry, tmp_path: Path) -> None:
    """The id of an image is its configuration's digest, which all of these artifacts share."""
    world = World(tmp_path)
    _artifact(registry, "a")
    first = await world.images.pull(f"{registry.host}/app:1")
    _artifact(registry, "b")
    second = await world.images.pull(f"{registry.host}/app:1")
    assert first.id != second.id
    assert {image.id: image.tags for image in world.images.list()} == {first.id: (), second.id: second.tags}
    await world.images.remove(first.id)
    world.check(second)


async def test_configuration_of_an_artifact_is_kept(registry: FakeRegistry, tmp_path: Path) -> None:
    config = registry.descriptor("application/vnd.cncf.helm.config.v1+json", b'{"name":"chart"}')
    _artifact(registry, "chart.tgz", config=config, artifactType="")
    world = World(tmp_path)
    pulled = await world.images.pull(f"{registry.host}/app:1")
    assert pulled.artifact_type == "application/vnd.cncf.helm.config.v1+json"
    assert config["digest"] in pulled.blobs
    world.check(pulled)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"layers": [{"mediaType": "x", "digest": digest(b""), "size": 0, "annotations": {_TITLE: "../x"}}]}, "'../x'"),
        ({"layers": [{"mediaType": "x", "digest": digest(b""), "size": 0}] * 501}, "501 layers"),
        ({"layers": [{"mediaType": "x", "digest": digest(b""), "size": 1 << 60}]}, "bytes"),
        ({"artifactType": "x" * 300}, "no media type"),
        ({"artifactType": "a\nb"}, "no media type"),
        ({"manifests": []}, "its content does not"),
    ],
)
async def test_hostile_artifact_is_refused_before_its_blobs_are_fetched(
    registry: FakeRegistry, tmp_path: Path, fields: dict[str, object], why: str
) -> None:
    _artifact(registry, "a", **fields)
    world = World(tmp_path)
    with pytest.raises(Invalid, match=why):
        await world.images.pull(f"{registry.host}/app:1")
    assert not [path for path, *_ in registry.seen if "/blobs/" in path and manifests.EMPTY_DIGEST not in path]
    assert world.content.digests() == set() and world.images.list() == []


async def test_blob_with_other_content_than_its_digest_is_refused(registry: FakeRegistry, tmp_path: Path) -> None:
    _artifact(registry, "a")
    registry.blobs[digest(b"content of a")] = b"CONTENT OF A"
    with pytest.raises(Invalid, match="came as"):
        await World(tmp_path).images.pull(f"{registry.host}/app:1")


async def test_exported_artifact_is_imported_as_the_same(registry: FakeRegistry, tmp_path: Path) -> None:
    _artifact(registry, "a", "b")
    world = World(tmp_path)
    pulled = await world.images.pull(f"{registry.host}/app:1")
    archive = b"".join([piece async for piece in world.images.export_archive([pulled.id])])
    await world.images.remove(pulled.id)
    (again,) = await world.images.import_archive(io.BytesIO(archive), "archive")
    assert again == pulled
    world.check(again)
