"""Every field in which an image describes itself has a bound, and the refusal names it."""

import json
import tracemalloc
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid, Permanent
from pykubelet.base.units import MIB
from pykubelet.criserver.images import index, limits, manifests
from pykubelet.criserver.images.image_types import ImageConfig, ImageRecord
from pykubelet.criserver.images.index import ImageIndex
from pykubelet.criserver.images.manifests import digest_of
from tests.unit.criserver.images.fakeregistry import FakeRegistry
from tests.unit.criserver.images.stores import open_stores
from tests.unit.criserver.images.world import World

LONG: dict[str, object] = {
    "User": "u" * (4 * MIB - 1000),
    "WorkingDir": "/" + "d" * 5000,
    "StopSignal": "S" * 65,
    "Entrypoint": ["x" * 200_000],
    "Cmd": ["x" * 10_000] * 30,
    "Env": ["A=1"] * 180_000,
    "Volumes": {f"/v/{number}": {} for number in range(257)},
    "ExposedPorts": {f"{number}/tcp": {} for number in range(65_537)},
    "Labels": {"key": "v" * MIB},
}
NUL: dict[str, object] = {
    "User": "a\0b",
    "WorkingDir": "/\0",
    "Env": ["A=\0"],
    "Cmd": ["\0"],
    "Volumes": {"/a\0": {}},
    "Labels": {"\0": ""},
}
LARGE: dict[str, object] = {
    "User": "u" * 256,
    "WorkingDir": "/" + "d" * 4000,
    "Entrypoint": ["x" * 100_000],
    "Env": [f"A{number}=1" for number in range(4096)],
    "Volumes": {f"/v/{number}": {} for number in range(256)},
    "ExposedPorts": {f"{number}/udp": {} for number in range(1, 65_536)},
    "Labels": {"io.buildpacks.build.metadata": "v" * 600_000, "io.buildpacks.lifecycle.metadata": "v" * 300_000},
}


def config(**fields: object) -> bytes:
    return json.dumps({"rootfs": {"type": "layers", "diff_ids": []}, "config": fields}).encode()


@pytest.mark.parametrize("field", LONG)
def test_config_with_a_field_too_large_is_refused_by_the_name_of_the_field(field: str) -> None:
    with pytest.raises(Invalid, match=rf"image demo/app:1: {field} of its configuration has") as error:
        manifests.parse_config(config(**{field: LONG[field]}), "image demo/app:1")
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("field", NUL)
def test_config_with_a_nul_is_refused(field: str) -> None:
    with pytest.raises(Invalid, match=rf"{field} of its configuration has a NUL"):
        manifests.parse_config(config(**{field: NUL[field]}), "image")


def test_config_of_a_large_honest_image_is_taken() -> None:
    assert len(manifests.parse_config(config(**LARGE), "image").config.env) == 4096


@pytest.mark.parametrize(
    "data",
    [
        config(Env=["A"] * 600_000),
        b'{"rootfs": {}, "other": [' + b"[]," * 300_000 + b"[]]}",
        b'{"rootfs": {"diff_ids": ' + json.dumps(["sha256:" + "0" * 64] * 501).encode() + b"}}",
        b"[" * 100_000,
        b'{"rootfs": {}, "config": {"Volumes": {"/v": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}}",
        b'{"rootfs": {}, "config": {"User": "\\ud800"}}',
        b'{"rootfs": {}, "config": {"User": "\xff"}}',
    ],
    ids=["values", "values that are not used", "layers", "depth", "depth in a field", "surrogate", "no text"],
)
def test_config_that_no_tool_writes_is_refused(data: bytes) -> None:
    with pytest.raises(Invalid, match="image") as error:
        manifests.parse_config(data, "image")
    assert len(str(error.value)) < 300


def test_index_of_too_many_entries_and_platforms_is_refused_in_few_words() -> None:
    def index(count: int) -> bytes:
        entry = {"mediaType": manifests.OCI_MANIFEST, "size": 1}
        platforms = ({"os": "o" * 1000, "architecture": f"{number}\n"} for number in range(count))
        entries = [entry | {"digest": digest_of(b"%d" % n), "platform": p} for n, p in enumerate(platforms)]
        return json.dumps({"schemaVersion": 2, "manifests": entries}).encode()

    with pytest.raises(Invalid, match="index of 1001 entries"):
        manifests.parse_index(index(1001), manifests.OCI_INDEX, "image")
    entries = manifests.parse_index(index(1000), manifests.OCI_INDEX, "image")
    with pytest.raises(Invalid, match="has no image for linux/amd64") as error:
        manifests.choose(entries, manifests.Platform("amd64", "linux"), "image")
    assert len(str(error.value)) < 4000 and "\n" not in str(error.value)


@pytest.mark.parametrize("variant", ["v²", "²", "v٣", "v99999", "v-1", "v"])
def test_platform_of_a_strange_variant_is_ranked_as_without_one(variant: str) -> None:
    platform = manifests.Platform("arm64", "linux", variant)
    strange = manifests.Descriptor(digest_of(b""), 1, manifests.OCI_MANIFEST, platform)
    assert manifests.choose([strange], manifests.Platform("arm64", "linux"), "image") is strange


async def test_pull_of_an_image_with_a_hostile_config_is_refused(registry: FakeRegistry, tmp_path: Path) -> None:
    world = World(tmp_path)
    registry.add_image("team/app:1", [], [], User=LONG["User"])
    with pytest.raises(Invalid, match=rf"{registry.host}/team/app:1: User of its configuration has a value"):
        await world.images.pull(f"{registry.host}/team/app:1")
    assert world.images.list() == [] and world.content.digests() == set()


async def test_image_of_too_many_names_gets_the_new_one_and_loses_the_oldest(
    registry: FakeRegistry, tmp_path: Path
) -> None:
    world = World(tmp_path)
    for number in range(limits.MAX_NAMES + 2):
        registry.add_image(f"team/app:{number}", [], [])
        await world.images.pull(f"{registry.host}/team/app:{number}")
    (image,) = world.images.list()
    assert image.tags == tuple(f"{registry.host}/team/app:{number}" for number in range(2, limits.MAX_NAMES + 2))
    await world.images.pull(f"{registry.host}/team/app:2")
    await world.images.pull(f"{registry.host}/team/app:0")
    (image,) = world.images.list()
    assert len(image.tags) == limits.MAX_NAMES and image.tags[-1].endswith(":0")


def test_index_with_an_image_of_too_many_names_is_read_with_the_newest(tmp_path: Path) -> None:
    """It was pulled before there were limits, and containers may still use it."""
    index = ImageIndex(tmp_path / "index.json")
    index.put(ImageRecord(digest_of(b"1"), ("tag-0",), (), 1, ImageConfig(), (), digest_of(b"2")))
    tags = ",".join(f'"tag-{number}"' for number in range(100))
    data = (tmp_path / "index.json").read_text().replace('"tag-0"', tags)
    (tmp_path / "index.json").write_text(data)
    (image,) = ImageIndex(tmp_path / "index.json").images.values()
    assert image.tags == tuple(f"tag-{number}" for number in range(100 - limits.MAX_NAMES, 100))
    assert not (tmp_path / "index.json.quarantine").exists()


def test_image_that_brings_too_many_names_at_once_is_refused(tmp_path: Path) -> None:
    tags = tuple(f"tag-{number}" for number in range(limits.MAX_NAMES + 1))
    with pytest.raises(Invalid, match="sha256:1 has 65 names; give it at most 64"):
        ImageIndex(tmp_path / "index.json").put(ImageRecord("sha256:1", tags, (), 1, ImageConfig(), (), "sha256:2"))


async def test_large_images_are_refused_before_they_fill_the_index(
    registry: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index of more than 256 MiB is not read any more: the next server had none of the node's images."""
    monkeypatch.setattr(index, "_MOST_LARGE", 400_000)
    world = World(tmp_path)
    for number in range(4):
        registry.add_image(f"evil:{number}", [], [], User=str(number), Labels={"key": "v" * 150_000})
        registry.add_image(f"app:{number}", [], [], User=str(number))
    for number in range(2):
        await world.images.pull(f"{registry.host}/evil:{number}")
    with pytest.raises(Permanent, match="no room for sha256:"):
        await world.images.pull(f"{registry.host}/evil:2")
    await world.images.pull(f"{registry.host}/evil:1")
    for number in range(4):
        await world.images.pull(f"{registry.host}/app:{number}")
    assert len(World(tmp_path).images.list()) == 6
    await world.images.remove(f"{registry.host}/evil:1")
    await world.images.pull(f"{registry.host}/evil:2")


def test_index_gets_no_larger_than_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "_LONGEST", 10_000)
    found = ImageIndex(tmp_path / "index.json")
    with pytest.raises(Permanent, match="no room for image-"):
        for number in range(20):
            found.put(ImageRecord(f"image-{number}", (), (), 1, ImageConfig(), (), ""))
    tags = tuple(f"registry/app:{number}" for number in range(60))
    with pytest.raises(Permanent, match="no room for image-0"):
        found.put(ImageRecord("image-0", tags, (), 1, ImageConfig(), (), ""))
    assert len(found.images) > 5 and (tmp_path / "index.json").stat().st_size <= 10_000


@pytest.mark.parametrize("value", ["ab", "b" * 2000 + "\U0001f433"], ids=["short", "wide"])
def test_images_take_no_more_memory_than_the_index_has_bytes(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """5400 images of a registry of one's own took 4.8 GiB of memory, and half a minute of each start."""
    monkeypatch.setattr(index, "_LONGEST", 2 * MIB)
    found = ImageIndex(tmp_path / "index.json")
    values = (value,) * (8000 // len(value))
    config = ImageConfig(entrypoint=values, cmd=values, env=values)
    with pytest.raises(Permanent, match="no room for sha256:"):
        for number in range(200):
            digest = digest_of(str(number).encode())
            found.put(ImageRecord(digest, (), (), 1, config, (), digest))
    tracemalloc.start()
    read = ImageIndex(tmp_path / "index.json")
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert read.images == found.images and len(found.images) > 1
    assert taken <= 2 * MIB


async def test_stored_image_with_a_hostile_config_is_set_aside(
    registry: FakeRegistry, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It was pulled before there were limits; the other images must not suffer for it."""
    world = World(tmp_path)
    for name in ("good", "bad"):
        registry.add_image(f"team/{name}:1", [], [], User=name)
        await world.images.pull(f"{registry.host}/team/{name}:1")
    index = tmp_path / "images/index.json"
    index.write_bytes(index.read_bytes().replace(b'"user":"bad"', b'"user":"%s"' % (b"b" * 4_000_000)))
    again = open_stores(tmp_path)
    await again.images.recover()
    assert [image.config.user for image in again.images.list()] == ["good"]
    assert any("team/bad:1): User of its" in str(vars(record).get("error")) for record in caplog.records)
    for _ in range(2):
        open_stores(tmp_path)  # finds the same again, until the index changes
    (aside,) = json.loads((tmp_path / "images/index.json.quarantine").read_bytes())
    assert aside["tags"] == [f"{registry.host}/team/bad:1"]
