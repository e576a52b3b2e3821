"""The client with a misbehaving registry: downloads are correct, and credentials go to no other host."""

import asyncio
import json
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid, NotFound, Permanent, PykubeletError, Transient, Unsupported
from pykubelet.criserver.images import (
    AuthConfig,
    Phase,
    Progress,
    manifests,
)
from pykubelet.criserver.images.image_types import RegistryUnavailable, Unauthenticated
from pykubelet.criserver.images.manifests import Descriptor, Platform
from pykubelet.criserver.images.registry import HostConfig, http
from pykubelet.criserver.images.registry.bandwidth import DownloadPace
from pykubelet.criserver.images.registry.http import Request, _redirected, open_wire
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.free_ports import free_port
from tests.unit.base.http.http_server import http_server
from tests.unit.criserver.images.fakeregistry import FakeRegistry, digest
from tests.unit.criserver.images.world import DIFFS, LAYERS, World, check

SECRET = AuthConfig(username="alice", password="s3cret")
BASIC = "Basic YWxpY2U6czNjcmV0"
BOB = "Basic Ym9iOm1pcnJvcg=="


async def test_a_pull_brings_all_layers_and_tells_how_far_it_is(registry: FakeRegistry, tmp_path: Path) -> None:
    top = registry.add_image("team/app:1", LAYERS, DIFFS, Cmd=["/app"])
    world = World(tmp_path)
    steps: list[Progress] = []
    image = await world.images.pull(f"{registry.host}/team/app:1", None, steps.append)
    assert image.tags == (f"{registry.host}/team/app:1",) and image.digests == (f"{registry.host}/team/app@{top}",)
    assert image.config.cmd == ("/app",) and len(image.layers) == 4 and image.layers[0] == DIFFS[0]
    check(world, image)
    for layer in image.stack:
        mine = [step for step in steps if step.layer == layer.digest]
        downloaded = [step.done for step in mine if step.phase is Phase.DOWNLOADING]
        assert downloaded == sorted(downloaded) and downloaded[0] == 0 and downloaded[-1] == layer.size
        assert mine[-1].phase is Phase.DONE
    registry.seen.clear()
    assert await world.images.pull(f"{registry.host}/team/app@{top}") == image
    assert all("/blobs/" not in path for path, _, _ in registry.seen), "what is here is not fetched again"


async def test_cut_connections_are_resumed_where_they_ended(registry: FakeRegistry, tmp_path: Path) -> None:
    registry.add_image("app:1", LAYERS[:1], DIFFS[:1])
    registry.cut = 1_100_000
    world = World(tmp_path)
    check(world, await world.images.pull(f"{registry.host}/app:1"))
    offsets = [ranged for path, _, ranged in registry.seen if DIFFS[0] in path]
    assert len(offsets) == 3 and offsets[0] == "" and all(offset.startswith("bytes=") for offset in offsets[1:])


async def test_download_from_server_without_ranges_restarts(registry: FakeRegistry, tmp_path: Path) -> None:
    registry.add_image("app:1", LAYERS[:1], DIFFS[:1])
    world = World(tmp_path)
    registry.ranges = False
    with world.content.writer(DIFFS[0], len(LAYERS[0]), registry.host) as writer:
        writer.restart()
        writer.write(LAYERS[0][:1000])
    check(world, await world.images.pull(f"{registry.host}/app:1"))


async def test_another_range_than_the_one_asked_for_is_refused(registry: FakeRegistry, tmp_path: Path) -> None:
    registry.add_image("app:1", LAYERS[:1], DIFFS[:1])
    registry.shift = 1
    world = World(tmp_path)
    with world.content.writer(DIFFS[0], len(LAYERS[0]), registry.host) as writer:
        writer.restart()
        writer.write(LAYERS[0][:500])
    with pytest.raises(Permanent, match="another range than requested"):
        await world.images.pull(f"{registry.host}/app:1")


async def test_a_partial_file_of_an_earlier_server_is_continued(registry: FakeRegistry, tmp_path: Path) -> None:
    registry.add_image("app:1", LAYERS[:1], DIFFS[:1])
    for wrong in (False, True):
        world = World(tmp_path / str(wrong))
        with world.content.writer(DIFFS[0], len(LAYERS[0]), registry.host) as writer:
            writer.restart()
            writer.write(b"?" * 500 if wrong else LAYERS[0][:500])
        registry.seen.clear()
        check(world, await world.images.pull(f"{registry.host}/app:1"))
        ranges = [ranged for path, _, ranged in registry.seen if DIFFS[0] in path]
        assert ranges == (["bytes=500-", ""] if wrong else ["bytes=500-"])


async def test_errors_that_pass_are_waited_for(registry: FakeRegistry, tmp_path: Path) -> None:
    registry.add_image("app:1", LAYERS[:1], DIFFS[:1])
    registry.failures = [503, 429]
    world = World(tmp_path)
    await world.images.pull(f"{registry.host}/app:1")
    assert world.clock.slept == [7.0, 7.0]
    registry.failures = [500] * 50
    with pytest.raises(Transient, match="answered 500"):
        await world.images.pull(f"{registry.host}/app:1")
    assert len(registry.failures) == 45, "HEAD, and four times GET"


@pytest.mark.parametrize(
    ("asked", "waited"),
    [
        ("Wed, 21 Oct 2015 07:28:09 GMT", 9.0),
        ("Wed, 21 Oct 2015 07:27:00 GMT", 0.5),
        ("Wed, 21 Oct 2115 07:28:00 GMT", 120.0),
        ("9" * 5000, 120.0),
        ("Wed, 21 Oct 99999999999 07:28:09 GMT", 0.5),
        ("soon", 0.5),
        ("-7", 0.5),
    ],
)
async def test_time_until_which_a_registry_asks_to_wait(
    registry: FakeRegistry, tmp_path: Path, asked: str, waited: float
) -> None:
    """RFC 9110, 10.2.3: seconds or a date, here by the server's clock, which may differ from the node's."""
    registry.add_image("app:1", LAYERS[:1], DIFFS[:1])
    registry.failures = [429]
    registry.failure_headers = {"Retry-After": asked, "Date": "Wed, 21 Oct 2015 07:28:00 GMT"}
    world = World(tmp_path)
    await world.images.pull(f"{registry.host}/app:1")
    assert world.clock.slept == [waited]


async def test_pull_of_a_missing_image_or_registry_says_so(registry: FakeRegistry, tmp_path: Path) -> None:
    world = World(tmp_path)
    with pytest.raises(NotFound, match=r"nothing:1.*MANIFEST_UNKNOWN"):
        await world.images.pull(f"{registry.host}/nothing:1")
    with pytest.raises(Transient, match="cannot be reached"):
        await world.images.pull("127.0.0.1:1/nothing:1")
    assert world.content.digests() == set()


@pytest.mark.parametrize("kind", ["digest", "longer", "shorter"])
async def test_a_wrong_blob_is_refused_and_not_kept(registry: FakeRegistry, tmp_path: Path, kind: str) -> None:
    registry.add_image("app:1", LAYERS[:1], DIFFS[:1])
    good = LAYERS[0]
    registry.blobs[DIFFS[0]] = {"digest": b"x" + good[1:], "longer": good + b"x", "shorter": good[:-1]}[kind]
    world = World(tmp_path)
    with pytest.raises((Invalid, Transient), match=DIFFS[0]):
        await world.images.pull(f"{registry.host}/app:1")
    assert world.images.list() == [] and not world.content.has(DIFFS[0])
    await world.after_a_while()
    assert world.content.digests() == set() and list((world.content.root / "ingest").iterdir()) == []


async def test_a_manifest_must_have_the_digest_that_was_asked_for(registry: FakeRegistry, tmp_path: Path) -> None:
    top = registry.add_image("app:1", LAYERS[:1], DIFFS[:1])
    media_type, data = registry.manifests[f"app:{top}"]
    registry.manifests[f"app:{top}"] = (media_type, data + b" ")
    with pytest.raises(Invalid, match="instead of"):
        await World(tmp_path).images.pull(f"{registry.host}/app@{top}")


@pytest.mark.parametrize(
    ("served", "change", "error"),
    [
        (manifests.OCI_INDEX, {}, Invalid),
        (manifests.DOCKER_MANIFEST, {}, Invalid),
        (manifests.OCI_MANIFEST, {"manifests": []}, Invalid),
        (manifests.OCI_MANIFEST, {"fsLayers": []}, Invalid),
        (manifests.OCI_MANIFEST, {"schemaVersion": 1}, Unsupported),
        (manifests.OCI_MANIFEST, {"layers": []}, Invalid),
        ("text/html", {}, Invalid),
    ],
)
async def test_confused_manifests_are_refused(
    registry: FakeRegistry, tmp_path: Path, served: str, change: dict[str, object], error: type[PykubeletError]
) -> None:
    _, data = registry.make_image(LAYERS[:1], DIFFS[:1])
    registry.add_manifest("app:1", served, json.dumps(json.loads(data) | change).encode())
    with pytest.raises(error, match="app:1"):
        await World(tmp_path).images.pull(f"{registry.host}/app:1")


@pytest.mark.parametrize("said", ["application/octet-stream", "application/json"])
async def test_manifest_without_media_type_is_what_the_index_announces(
    registry: FakeRegistry, tmp_path: Path, said: str
) -> None:
    kind, data = registry.make_image(LAYERS[:1], DIFFS[:1])
    data = json.dumps({key: value for key, value in json.loads(data).items() if key != "mediaType"}).encode()
    child = registry.add_manifest("app:child", said, data)
    for announced, fits in ((kind, True), (manifests.DOCKER_LIST, False)):
        entry = {"mediaType": announced, "digest": child, "size": len(data)}
        index = json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()
        registry.add_manifest("app:1", manifests.OCI_INDEX, index)
        pull = World(tmp_path / announced.rpartition(".")[2]).images.pull(f"{registry.host}/app:1")
        if fits:
            assert (await pull).manifest == child
        else:
            with pytest.raises(Invalid, match="its media type says index"):
                await pull


async def test_the_platform_is_chosen_from_an_index(registry: FakeRegistry, tmp_path: Path) -> None:
    entries = []
    for architecture, variant, layer in (("arm64", "v8", 1), ("amd64", "v3", 2), ("amd64", "", 0)):
        kind, data = registry.make_image([LAYERS[layer]], [DIFFS[layer]])
        registry.add_manifest("app:x", kind, data)
        platform = {"os": "linux", "architecture": architecture, "variant": variant}
        entries.append({"mediaType": kind, "digest": digest(data), "size": len(data), "platform": platform})
    index = json.dumps({"schemaVersion": 2, "manifests": entries}).encode()
    top = registry.add_manifest("app:1", manifests.OCI_INDEX, index)
    image = await World(tmp_path).images.pull(f"{registry.host}/app:1")
    assert image.layers == (DIFFS[0],) and image.digests == (f"{registry.host}/app@{top}",)
    del entries[1:]
    registry.add_manifest("app:2", manifests.OCI_INDEX, json.dumps({"schemaVersion": 2, "manifests": entries}).encode())
    with pytest.raises(Invalid, match="linux/arm64/v8"):
        await World(tmp_path / "2").images.pull(f"{registry.host}/app:2")


async def test_image_that_names_a_type_and_a_subject_is_an_image_and_its_attestations_are_not(
    registry: FakeRegistry, tmp_path: Path
) -> None:
    """OCI 1.1: both fields may be in any manifest; what it is says its configuration."""
    kind, data = registry.make_image([LAYERS[0]], [DIFFS[0]])
    subject = {"mediaType": kind, "digest": digest(b"other"), "size": 5}
    data = json.dumps({**json.loads(data), "artifactType": "application/vnd.example", "subject": subject}).encode()
    registry.add_manifest("app:x", kind, data)
    unknown = {"os": "unknown", "architecture": "unknown"}
    attestation = {"mediaType": kind, "digest": digest(b"statement"), "size": 9, "platform": unknown}
    entry = {"mediaType": kind, "digest": digest(data), "size": len(data)}
    entry["platform"] = {"os": "linux", "architecture": "amd64"}
    entries = [{**attestation, "artifactType": "application/vnd.in-toto+json"}, entry]
    index = json.dumps({"schemaVersion": 2, "artifactType": "application/vnd.example", "manifests": entries}).encode()
    registry.add_manifest("app:1", manifests.OCI_INDEX, index)
    world = World(tmp_path)
    for tag in ("1", "x"):
        image = await world.images.pull(f"{registry.host}/app:{tag}")
        world.check(image)
        assert (image.layers, image.artifact_type) == ((DIFFS[0],), "")


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([("386", ""), ("arm", "v7"), ("amd64", "v2")], None),
        ([("386", ""), ("amd64", "")], 1),
        ([("arm64", ""), ("386", "")], 1),
    ],
)
def test_a_machine_of_64_bits_runs_32_too_if_there_is_nothing_better(
    entries: list[tuple[str, str]], expected: int | None
) -> None:
    made = [
        Descriptor(digest(str(number).encode()), 1, manifests.OCI_MANIFEST, Platform(architecture, "linux", variant))
        for number, (architecture, variant) in enumerate(entries)
    ]
    machine = Platform("amd64", "linux")
    assert manifests.choose(made, machine, "x") is made[0 if expected is None else expected]


@pytest.mark.parametrize(
    ("machine", "found", "runs"),
    [
        (Platform("arm64", "linux", "v8"), Platform("arm", "linux", "v60"), False),
        (Platform("arm64", "linux", "v8"), Platform("arm", "linux", "v8"), True),
        (Platform("amd64", "linux"), Platform("i386", "linux"), True),
        (Platform("amd64", "linux"), Platform("amd64", "Linux"), True),
        (Platform("amd64", "linux"), Platform("amd64", ""), True),
        (Platform("amd64", "linux"), Platform("amd64", "windows"), False),
    ],
)
def test_platforms_that_a_machine_runs(machine: Platform, found: Platform, runs: bool) -> None:
    entry = Descriptor(digest(b"x"), 1, manifests.OCI_MANIFEST, found)
    if runs:
        assert manifests.choose([entry], machine, "x") is entry
    else:
        with pytest.raises(Invalid, match="has no image for"):
            manifests.choose([entry], machine, "x")


def test_of_arm_images_the_newest_variant_is_chosen() -> None:
    made = [
        Descriptor(digest(variant.encode()), 1, manifests.OCI_MANIFEST, Platform("arm", "linux", variant))
        for variant in ("v5", "v7", "v6")
    ]
    assert manifests.choose(made, Platform("arm64", "linux", "v8"), "x") is made[1]
    with pytest.raises(Invalid, match="has no image for linux/arm/v6"):
        manifests.choose(made[1:2], Platform("arm", "linux", "v6"), "x")


async def test_an_unchanged_image_costs_no_get_of_a_manifest(registry: FakeRegistry, tmp_path: Path) -> None:
    """Registries count GET requests as pulls and limit them; an index is not among the image's own blobs."""
    kind, data = registry.make_image(LAYERS[:1], DIFFS[:1])
    registry.add_manifest("app:inner", kind, data)
    platform = {"os": "linux", "architecture": "amd64"}
    entries = [{"mediaType": kind, "digest": digest(data), "size": len(data), "platform": platform}]
    index = json.dumps({"schemaVersion": 2, "manifests": entries}).encode()
    registry.add_manifest("app:1", manifests.OCI_INDEX, index)
    registry.add_manifest("app:other", manifests.OCI_INDEX, index)
    world = World(tmp_path)
    first = await world.images.pull(f"{registry.host}/app:1")
    assert registry.manifest_methods == ["GET", "GET"]
    registry.manifest_methods.clear()
    registry.seen.clear()
    assert await world.images.pull(f"{registry.host}/app:1") == first
    assert await world.images.pull(first.digests[0]) == first
    assert (await world.images.pull(f"{registry.host}/app:other")).tags == (
        f"{registry.host}/app:1",
        f"{registry.host}/app:other",
    )
    assert registry.manifest_methods == ["HEAD"] * 3
    assert not any("/blobs/" in path for path, _, _ in registry.seen)
    registry.add_image("app:1", LAYERS[1:2], DIFFS[1:2])
    assert (await world.images.pull(f"{registry.host}/app:1")).layers == (DIFFS[1],)
    assert registry.manifest_methods[3:] == ["HEAD", "GET"]


@pytest.mark.parametrize(("status", "tells"), [(405, True), (404, True), (401, True), (500, True), (200, False)])
async def test_a_registry_whose_head_says_nothing_is_asked_by_get(
    registry: FakeRegistry, tmp_path: Path, status: int, tells: bool
) -> None:
    registry.add_image("app:1", LAYERS[:1], DIFFS[:1])
    world = World(tmp_path)
    await world.images.pull(f"{registry.host}/app:1")
    registry.head_status, registry.tells_digest = status, tells
    registry.add_image("app:1", LAYERS[1:2], DIFFS[1:2])
    assert (await world.images.pull(f"{registry.host}/app:1")).layers == (DIFFS[1],)
    assert registry.manifest_methods == ["GET", "HEAD", "GET"]


async def test_an_image_that_is_here_needs_its_credentials_again(registry: FakeRegistry, tmp_path: Path) -> None:
    registry.add_image("app:1", LAYERS[:1], DIFFS[:1])
    registry.basic = "alice:s3cret"
    world = World(tmp_path)
    image = await world.images.pull(f"{registry.host}/app:1", SECRET)
    for name in (f"{registry.host}/app:1", image.digests[0]):
        with pytest.raises(Permanent, match="credentials"):
            await world.images.pull(name)
    await world.images.pull(f"{registry.host}/app:1", SECRET)


async def test_a_blob_that_got_lost_is_fetched_again_though_head_knows_the_image(
    registry: FakeRegistry, tmp_path: Path
) -> None:
    registry.add_image("app:1", LAYERS[:2], DIFFS[:2])
    world = World(tmp_path)
    image = await world.images.pull(f"{registry.host}/app:1")
    for blob in (DIFFS[0], image.manifest):
        world.content.remove(blob)
        check(world, await world.images.pull(f"{registry.host}/app:1"))


async def test_basic_credentials_of_the_wrong_user_or_server_are_refused(
    registry: FakeRegistry, tmp_path: Path
) -> None:
    registry.add_image("app:1", LAYERS[:1], DIFFS[:1])
    registry.basic = "alice:s3cret"
    await World(tmp_path / "1").images.pull(f"{registry.host}/app:1", SECRET)
    encoded = AuthConfig(auth="YWxpY2U6czNjcmV0", server_address=f"http://{registry.host}/v1/")
    await World(tmp_path / "2").images.pull(f"{registry.host}/app:1", encoded)
    for wrong in (
        None,
        AuthConfig(username="alice", password="no"),
        AuthConfig(auth="YWxpY2U6czNjcmV0", server_address="a.b"),
    ):
        with pytest.raises(Permanent, match="credentials"):
            await World(tmp_path / "3").images.pull(f"{registry.host}/app:1", wrong)
    with pytest.raises(Invalid, match="base64"):
        await World(tmp_path / "4").images.pull(f"{registry.host}/app:1", AuthConfig(auth="%"))
    assert "s3cret" not in repr(SECRET)


async def test_one_token_serves_all_layers_of_a_pull(registry: FakeRegistry, tmp_path: Path) -> None:
    registry.add_image("app:1", LAYERS, DIFFS)
    registry.token, registry.token_user = "t0ken", "alice:s3cret"
    await World(tmp_path / "1").images.pull(f"{registry.host}/app:1", SECRET)
    asked = [path for path, _, _ in registry.seen if path.startswith("/token")]
    assert asked == ["/token?scope=repository%3Aapp%3Apull&scope=repository%3Ax%3Apull&service=fake"], (
        "one token serves all layers"
    )
    registry.token_user = "identity"
    await World(tmp_path / "2").images.pull(f"{registry.host}/app:1", AuthConfig(identity_token="identity"))
    await World(tmp_path / "3").images.pull(f"{registry.host}/app:1", AuthConfig(registry_token="t0ken"))
    registry.token_user = ""
    await World(tmp_path / "4").images.pull(f"{registry.host}/app:1")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 501])
async def test_token_services_without_post_are_asked_by_get(
    registry: FakeRegistry, tmp_path: Path, status: int
) -> None:
    registry.add_image("app:1", LAYERS[:1], DIFFS[:1])
    registry.token, registry.token_user, registry.old_tokens = "t0ken", "alice:identity", status
    identity = AuthConfig(username="alice", identity_token="identity")
    await World(tmp_path).images.pull(f"{registry.host}/app:1", identity)


async def test_a_token_service_elsewhere_never_sees_credentials(
    registry: FakeRegistry, other: FakeRegistry, tmp_path: Path
) -> None:
    registry.add_image("app:1", LAYERS[:1], DIFFS[:1])
    registry.token = other.token = "t0ken"
    other.token_user = "alice:s3cret"
    registry.realm = f"http://localhost:{other.host.partition(':')[2]}/token"
    with pytest.raises(Permanent, match="401"):
        await World(tmp_path).images.pull(f"{registry.host}/app:1", SECRET)
    assert other.seen and all(not authorization for _, authorization, _ in other.seen)


async def test_redirects_to_another_host_lose_the_credentials(
    registry: FakeRegistry, other: FakeRegistry, tmp_path: Path
) -> None:
    registry.add_image("app:1", LAYERS, DIFFS)
    registry.basic = "alice:s3cret"
    other.blobs = registry.blobs
    registry.redirect = lambda target: f"http://{other.host}/elsewhere/{target}"
    world = World(tmp_path)
    check(world, await world.images.pull(f"{registry.host}/app:1", SECRET))
    assert len(other.seen) == 5 and all(not authorization for _, authorization, _ in other.seen)
    registry.redirect = lambda target: f"/v2/app/blobs/{target}"
    with pytest.raises(Permanent, match="redirects more than 5 times"):
        await World(tmp_path / "2").images.pull(f"{registry.host}/app:1", SECRET)
    for bad in ("file:///etc/passwd", "http://[::1", "http://x:99999/"):
        registry.redirect = lambda target, bad=bad: bad
        with pytest.raises(Permanent, match="not a valid URL"):
            await World(tmp_path / "3").images.pull(f"{registry.host}/app:1", SECRET)


@pytest.mark.parametrize("location", ["http://a/b", "HTTP://a/b", "hTTp://mirror.example:5000"])
def test_a_redirect_never_leaves_tls(location: str) -> None:
    with pytest.raises(Permanent, match="without TLS"):
        _redirected("https://registry.example/v2/", location)
    assert _redirected("https://registry.example/v2/", "//other.example/x") == "https://other.example/x"


@pytest.mark.parametrize("scheme", ["basic", "bearer"])
async def test_redirect_target_that_asks_for_credentials_gets_none(
    registry: FakeRegistry, other: FakeRegistry, tmp_path: Path, scheme: str
) -> None:
    """It even has the registry's own host name (CVE-2020-15157)."""
    registry.add_image("app:1", LAYERS[:1], DIFFS[:1])
    registry.basic = "alice:s3cret"
    other.blobs = registry.blobs
    if scheme == "basic":
        other.basic = "alice:s3cret"
    else:
        other.token, other.token_user = "t0ken", "alice:s3cret"
    registry.redirect = lambda target: f"http://{other.host}/v2/app/blobs/{target}"
    with pytest.raises(Permanent, match="401"):
        await World(tmp_path).images.pull(f"{registry.host}/app:1", SECRET)
    assert other.seen
    assert all(path.startswith("/v2/") and not authorization for path, authorization, _ in other.seen)


async def test_mirrors_come_first_and_get_no_credentials(
    registry: FakeRegistry, other: FakeRegistry, tmp_path: Path
) -> None:
    registry.add_image("team/app:1", LAYERS[:1], DIFFS[:1])
    other.manifests, other.blobs = dict(registry.manifests), dict(registry.blobs)
    hosts = {registry.host: HostConfig((f"http://{other.host}",), plain_http=True)}
    await World(tmp_path / "1", hosts).images.pull(f"{registry.host}/team/app:1", SECRET)
    assert registry.seen == [] and all(f"?ns={registry.host}" in path for path, _, _ in other.seen)

    registry.basic, other.basic = "alice:s3cret", "mirror:only"
    await World(tmp_path / "2", hosts).images.pull(f"{registry.host}/team/app:1", SECRET)
    assert all(authorization != BASIC for _, authorization, _ in other.seen)

    other.basic = ""
    other.blobs[DIFFS[0]] = b"!" * len(LAYERS[0])
    world = World(tmp_path / "3", hosts)
    check(world, await world.images.pull(f"{registry.host}/team/app:1", SECRET))


@pytest.mark.parametrize("status", [429, 500, 501])
async def test_a_mirror_that_refuses_head_is_still_asked_by_get(
    registry: FakeRegistry, other: FakeRegistry, tmp_path: Path, status: int
) -> None:
    registry.add_image("app:1", LAYERS[:1], DIFFS[:1])
    other.manifests, other.blobs = dict(registry.manifests), dict(registry.blobs)
    world = World(tmp_path, {registry.host: HostConfig((f"http://{other.host}",), plain_http=True)})
    await world.images.pull(f"{registry.host}/app:1")
    other.head_status = registry.head_status = status
    other.add_image("app:1", LAYERS[1:2], DIFFS[1:2])
    assert (await world.images.pull(f"{registry.host}/app:1")).layers == (DIFFS[1],)
    assert other.manifest_methods == ["GET", "HEAD", "GET"]


@pytest.mark.parametrize("host", ["[dead:beef]:5000", "r.example:99999", "r.example:0"])
async def test_hosts_that_no_url_can_have_are_refused(tmp_path: Path, host: str) -> None:
    with pytest.raises(Invalid, match="is not a valid registry host"):
        await World(tmp_path).images.pull(f"{host}/app:1")


async def test_a_signed_url_is_asked_as_it_was_written(registry: FakeRegistry, tmp_path: Path) -> None:
    registry.add_image("app:1", LAYERS[:1], DIFFS[:1])
    signed = "key%2Fname=%7Ea&sig=a%2Bb"
    registry.redirect = lambda target: f"/elsewhere/{target}?{signed}"
    await World(tmp_path).images.pull(f"{registry.host}/app:1")
    asked = [path for path, _, _ in registry.seen if path.startswith("/elsewhere/")]
    assert asked and all(path.endswith(f"?{signed}") for path in asked)


async def test_a_blob_that_hardly_comes_is_given_up() -> None:
    """It would hold up every other pull of this blob."""
    clock = VirtualClock()
    pace = DownloadPace(clock)
    for _ in range(3):
        pace.check(30_000, "blob")
        await clock.advance(30.0)
        pace.check(70_000, "blob")
        await clock.advance(30.0)
    pace.check(1, "blob")
    await clock.advance(59.0)
    pace.check(1, "blob")
    await clock.advance(1.0)
    with pytest.raises(RegistryUnavailable, match="only 1 bytes came within 60 s"):
        pace.check(0, "blob")


async def test_blob_that_comes_in_crumbs_is_given_up(registry: FakeRegistry, tmp_path: Path) -> None:
    """A server that ends each answer after a few bytes makes progress, and would hold the blob for days."""
    registry.add_image("app:1", LAYERS[:1], DIFFS[:1])
    registry.cut = 1000
    world = World(tmp_path)
    with pytest.raises(RegistryUnavailable, match="stopped responding"):
        await world.images.pull(f"{registry.host}/app:1")
    asked = [path for path, _, _ in registry.seen if DIFFS[0] in path]
    assert len(asked) == 4


async def test_blob_that_gets_no_further_is_given_up_whatever_a_server_without_ranges_sends(
    registry: FakeRegistry, tmp_path: Path
) -> None:
    """Each attempt begins again: one that brings less than the one before must not make the next one progress."""
    registry.add_image("app:1", LAYERS[:1], DIFFS[:1])
    registry.ranges = False
    registry.cuts = [2_000_000, 100_000] * 10
    world = World(tmp_path)
    with pytest.raises(RegistryUnavailable, match="stopped responding"):
        await world.images.pull(f"{registry.host}/app:1")
    asked = [path for path, _, _ in registry.seen if DIFFS[0] in path]
    assert len(asked) == 5, "the first one has brought something"


@pytest.mark.parametrize("realm", ["http://127.0.0.1:99999/token", "http://[::1/token", "http://a:b/", "http:///", "?"])
async def test_token_service_with_an_invalid_url_is_refused(registry: FakeRegistry, tmp_path: Path, realm: str) -> None:
    registry.add_image("app:1", LAYERS[:1], DIFFS[:1])
    registry.token, registry.realm = "t0k", realm
    with pytest.raises(Permanent, match="not a valid URL"):
        await World(tmp_path).images.pull(f"{registry.host}/app:1")


async def test_registry_whose_challenge_is_not_utf8_is_refused(tmp_path: Path) -> None:
    challenge = b'Bearer realm="http://127.0.0.1:1/token",service="caf\xe9"'
    answer = b"HTTP/1.1 401 No\r\nWWW-Authenticate: %s\r\nContent-Length: 0\r\n\r\n" % challenge
    async with http_server(lambda _: answer) as server, asyncio.timeout(20):
        with pytest.raises(Unauthenticated, match="credentials"):
            await World(tmp_path).images.pull(f"127.0.0.1:{server.port}/app:1")


async def test_mirror_with_an_invalid_token_service_is_left_for_the_registry(
    registry: FakeRegistry, other: FakeRegistry, tmp_path: Path
) -> None:
    registry.add_image("app:1", LAYERS[:1], DIFFS[:1])
    other.token, other.realm = "t0k", "http://127.0.0.1:99999/token"
    world = World(tmp_path, {registry.host: HostConfig((f"http://{other.host}",), plain_http=True)})
    check(world, await world.images.pull(f"{registry.host}/app:1"))


async def test_wait_for_the_limit_is_no_slowness_of_the_server() -> None:
    clock = VirtualClock()
    pace = DownloadPace(clock)
    await clock.advance(300.0)
    pace.excuse(299.0)
    pace.check(1, "blob")
    await clock.advance(59.0)
    with pytest.raises(RegistryUnavailable, match="only 2 bytes"):
        pace.check(1, "blob")


async def test_a_manifest_that_hardly_comes_is_given_up(
    registry: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_WHOLE", 0.2)
    registry.endless, registry.endless_pause = "/manifests/", 0.05
    with pytest.raises(PykubeletError, match="stopped responding"):
        await World(tmp_path).images.pull(f"{registry.host}/app:1")


async def test_proxy_of_the_environment_is_asked_but_not_for_this_machine(
    registry: FakeRegistry, other: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HTTP_PROXY", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("http_proxy", f"http://{other.host}")
    other.add_image("app:1", LAYERS[:1], DIFFS[:1])
    world = World(tmp_path / "1", {"registry.invalid": HostConfig(plain_http=True)})
    check(world, await world.images.pull("registry.invalid/app:1"))
    assert other.seen and all(path.startswith("http://registry.invalid/v2/app/") for path, _, _ in other.seen)
    other.seen.clear()
    registry.add_image("app:1", LAYERS[:1], DIFFS[:1])
    await World(tmp_path / "2").images.pull(f"{registry.host}/app:1")
    assert registry.seen and not other.seen


async def test_foreign_urls_are_not_asked(registry: FakeRegistry, other: FakeRegistry, tmp_path: Path) -> None:
    kind, data = registry.make_image(LAYERS[:1], DIFFS[:1])
    body = json.loads(data)
    body["layers"][0]["urls"] = [f"http://{other.host}/elsewhere/{DIFFS[0]}"]
    registry.add_manifest("app:1", kind, json.dumps(body).encode())
    del registry.blobs[DIFFS[0]]
    with pytest.raises(NotFound):
        await World(tmp_path).images.pull(f"{registry.host}/app:1", SECRET)
    body["layers"][0]["mediaType"] = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"
    registry.add_manifest("app:2", kind, json.dumps(body).encode())
    with pytest.raises(Unsupported, match="foreign layer"):
        await World(tmp_path).images.pull(f"{registry.host}/app:2", SECRET)
    assert other.seen == []
    registry.blobs[DIFFS[0]] = LAYERS[0]
    check(world := World(tmp_path / "has it"), await world.images.pull(f"{registry.host}/app:2"))


async def test_configured_credentials_go_to_their_host_only(
    registry: FakeRegistry, other: FakeRegistry, tmp_path: Path
) -> None:
    registry.add_image("app:1", LAYERS[:1], DIFFS[:1])
    other.manifests, other.blobs, other.basic = dict(registry.manifests), dict(registry.blobs), "bob:mirror"
    hosts = {
        registry.host: HostConfig((f"http://{other.host}",), plain_http=True),
        other.host: HostConfig(username="bob", password="mirror"),
    }
    await World(tmp_path / "1", hosts).images.pull(f"{registry.host}/app:1", SECRET)
    assert registry.seen == [] and {authorization for _, authorization, _ in other.seen} == {"", BOB}
    other.basic, registry.basic = "", "alice:s3cret"
    other.manifests.clear()
    other.seen.clear()
    await World(tmp_path / "2", hosts).images.pull(f"{registry.host}/app:1", SECRET)
    assert {authorization for _, authorization, _ in other.seen} == {""}
    assert {authorization for _, authorization, _ in registry.seen} == {"", BASIC}


@pytest.mark.parametrize("media_type", manifests.OUTDATED)
async def test_images_of_schema_1_are_refused_by_that_name(
    registry: FakeRegistry, tmp_path: Path, media_type: str
) -> None:
    body = {"schemaVersion": 1, "name": "app", "tag": "1", "fsLayers": [{"blobSum": DIFFS[0]}], "history": []}
    registry.add_manifest("app:1", media_type, json.dumps(body).encode())
    with pytest.raises(Unsupported, match=rf"app:1 is stored at {registry.host} with manifest schema 1"):
        await World(tmp_path).images.pull(f"{registry.host}/app:1")


async def test_docker_types_and_lists(registry: FakeRegistry, tmp_path: Path) -> None:
    _, data = registry.make_image(LAYERS[:1], DIFFS[:1])
    body = json.loads(data) | {"mediaType": manifests.DOCKER_MANIFEST}
    body["config"]["mediaType"] = manifests.DOCKER_CONFIG
    body["layers"][0]["mediaType"] = "application/vnd.docker.image.rootfs.diff.tar.gzip"
    inner = json.dumps(body).encode()
    registry.add_manifest("app:inner", manifests.DOCKER_MANIFEST, inner)
    entry = {"mediaType": manifests.DOCKER_MANIFEST, "digest": digest(inner), "size": len(inner)}
    attestation = entry | {"digest": digest(b""), "platform": {"os": "unknown", "architecture": "unknown"}}
    listed = [attestation, entry | {"platform": {"os": "linux", "architecture": "amd64"}}]
    document = {"schemaVersion": 2, "mediaType": manifests.DOCKER_LIST, "manifests": listed}
    registry.add_manifest("app:1", manifests.DOCKER_LIST, json.dumps(document).encode())
    check(world := World(tmp_path), await world.images.pull(f"{registry.host}/app:1"))


@pytest.mark.parametrize(
    ("path", "status"), [("/manifests/", 200), ("/manifests/", 404), ("/token", 200), ("/blobs/", 200)]
)
async def test_answers_without_an_end(registry: FakeRegistry, tmp_path: Path, path: str, status: int) -> None:
    registry.add_image("app:1", LAYERS[:1], DIFFS[:1])
    if path == "/token":
        registry.token, registry.token_user = "t0ken", "alice:s3cret"
    registry.endless, registry.endless_status = path, status
    world = World(tmp_path)
    with pytest.raises(PykubeletError, match=f"failed to (resolve reference|pull image) {registry.host}/app:1"):
        await world.images.pull(f"{registry.host}/app:1", SECRET)
    assert list((world.content.root / "ingest").iterdir()) == [] and world.content.digests() == set()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"size": -1}, Invalid),
        ({"size": 1 << 70}, Invalid),
        ({"size": "5"}, Invalid),
        ({"digest": "sha256:../../x"}, Invalid),
        ({"digest": "md5:" + "0" * 32}, Invalid),
        ({"mediaType": "application/vnd.oci.image.layer.v1.tar+brotli"}, Unsupported),
    ],
)
async def test_layers_that_make_no_sense(
    registry: FakeRegistry, tmp_path: Path, change: dict[str, object], error: type[PykubeletError]
) -> None:
    kind, data = registry.make_image(LAYERS[:1], DIFFS[:1])
    body = json.loads(data)
    body["layers"][0] |= change
    registry.add_manifest("app:1", kind, json.dumps(body).encode())
    with pytest.raises(error, match="app:1"):
        await World(tmp_path).images.pull(f"{registry.host}/app:1")


async def test_too_many_layers_and_docker_manifests_of_other_things(registry: FakeRegistry, tmp_path: Path) -> None:
    kind, data = registry.make_image([b"x"] * 501, [digest(b"x")] * 501)
    registry.add_manifest("app:1", kind, data)
    with pytest.raises(Invalid, match="501 layers"):
        await World(tmp_path).images.pull(f"{registry.host}/app:1")
    body = json.loads(data) | {"layers": []}
    body["mediaType"] = manifests.DOCKER_MANIFEST
    body["config"]["mediaType"] = "application/vnd.docker.plugin.v1+json"
    registry.add_manifest("app:2", manifests.DOCKER_MANIFEST, json.dumps(body).encode())
    with pytest.raises(Unsupported, match=r"docker\.plugin"):
        await World(tmp_path).images.pull(f"{registry.host}/app:2")


async def test_registry_that_sends_informational_answers_without_end_is_unavailable(tmp_path: Path) -> None:
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    async with http_server(lambda _: hints, endless=hints * 1000) as server, asyncio.timeout(20):
        with pytest.raises(RegistryUnavailable, match="informational"):
            async with open_wire() as wire, wire.send(Request(f"http://127.0.0.1:{server.port}/v2/")):
                pass


async def test_registry_whose_head_takes_too_long_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykubelet.criserver.images.registry.http._ANSWER", 0.2)
    async with http_server(lambda _: None) as server, asyncio.timeout(20):
        with pytest.raises(RegistryUnavailable, match="cannot be reached or stopped responding"):
            async with open_wire() as wire, wire.send(Request(f"http://127.0.0.1:{server.port}/v2/")):
                pass


async def test_unreachable_registry_is_described_without_words_about_tls() -> None:
    port = free_port()
    with pytest.raises(RegistryUnavailable) as caught:
        async with open_wire() as wire, wire.send(Request(f"http://127.0.0.1:{port}/v2/")):
            pass
    assert "onnect" in str(caught.value) and "ssl" not in str(caught.value)
