"""Pulls from registries that behave as the well-known ones do where they differ from the specification.

Each quirk is that of a public report; what the registry does today may be better.
"""

from pathlib import Path

import pytest

from pykubelet.criserver.images import AuthConfig, ImageRecord
from pykubelet.criserver.images.image_types import RegistryUnavailable, Unauthenticated
from pykubelet.criserver.images.registry import HostConfig
from tests.unit.criserver.images.fakeregistry import FakeRegistry
from tests.unit.criserver.images.world import DIFFS, LAYERS, World, check

ALICE = AuthConfig(username="alice", password="s3cret")


async def pulled(world: World, registry: FakeRegistry, auth: AuthConfig | None = None) -> ImageRecord:
    image = await world.images.pull(f"{registry.host}/team/app:1", auth)
    check(world, image)
    return image


@pytest.fixture(autouse=True)
def image(registry: FakeRegistry) -> None:
    registry.add_image("team/app:1", LAYERS[:2], DIFFS[:2])


async def test_docker_hub_counts_get_requests_of_manifests_only(registry: FakeRegistry, tmp_path: Path) -> None:
    """docker/hub-feedback#2093: each GET counts as a pull, and pulls beyond the limit get 429; HEAD does not count."""
    registry.most_gets = 1
    world = World(tmp_path)
    for _ in range(5):
        await pulled(world, registry)
    assert registry.manifest_methods == ["GET", "HEAD", "HEAD", "HEAD", "HEAD"]
    with pytest.raises(RegistryUnavailable, match=r"429 .*TOOMANYREQUESTS limit"):
        await pulled(World(tmp_path / "2"), registry)


async def test_docker_hub_has_its_token_service_on_another_host(
    registry: FakeRegistry, other: FakeRegistry, tmp_path: Path
) -> None:
    """distribution/distribution#1589: registry-1.docker.io sends its clients to auth.docker.io."""
    registry.token = other.token = "t0ken"
    registry.realm = f"http://{other.host}/token"
    other.wanted_scope = "repository:team/app:pull"
    await pulled(World(tmp_path), registry)
    assert [path.partition("?")[0] for path, _, _ in other.seen] == ["/token"]


async def test_ecr_tells_no_digest_and_redirects_to_a_storage_that_refuses_credentials(
    registry: FakeRegistry, other: FakeRegistry, tmp_path: Path
) -> None:
    """distribution/distribution#3792; open-policy-agent/opa#6728: S3 takes the signature in the URL, nothing else."""
    registry.basic, registry.tells_digest = "alice:s3cret", False
    other.blobs, other.storage_refuses_credentials = registry.blobs, True
    registry.redirect = lambda target: f"http://{other.host}/elsewhere/{target}?X-Amz-Signature=a%2Fb"
    world = World(tmp_path)
    first = await pulled(world, registry, ALICE)
    assert await pulled(world, registry, ALICE) == first, "without a digest by HEAD, the manifest is compared"
    assert registry.manifest_methods == ["GET", "GET", "HEAD", "HEAD", "GET"], "each time first without credentials"


@pytest.mark.parametrize("status", [404, 403, 401, 405])
async def test_gcr_harbor_artifactory_and_others_issue_tokens_by_get_only(
    registry: FakeRegistry, tmp_path: Path, status: int
) -> None:
    """404: GCR (containerd's authorizer); 403: Harbor (containerd#3913); 401: Artifactory (containerd#2166)."""
    registry.token, registry.token_user, registry.old_tokens = "t0ken", "alice:identity", status
    await pulled(World(tmp_path), registry, AuthConfig(username="alice", identity_token="identity"))


async def test_ghcr_wants_a_token_for_public_images_and_the_media_type_by_name(
    registry: FakeRegistry, other: FakeRegistry, tmp_path: Path
) -> None:
    """Mic92/niks3#229: no content without an anonymous token, nor for clients that do not accept its media type.

    containerd/stargz-snapshotter#167: its storage refuses HEAD.
    """
    registry.token, registry.exact_types = "anonymous", True
    registry.wanted_scope = "repository:team/app:pull"
    other.blobs, other.storage_refuses_credentials = registry.blobs, True
    registry.redirect = lambda target: f"http://{other.host}/elsewhere/{target}?se=1&sig=a%3D"
    world = World(tmp_path)
    await pulled(world, registry)
    await pulled(world, registry)
    assert len(other.seen) == 3, "a configuration and two layers, once"


async def test_quay_says_of_missing_repositories_that_credentials_are_missing(
    registry: FakeRegistry, tmp_path: Path
) -> None:
    """quay/quay#1054: 401 for what does not exist, so that names of private repositories do not leak."""
    registry.token, registry.wanted_scope = "t0ken", "repository:team/app:pull"
    with pytest.raises(Unauthenticated, match="or no such repository"):
        await World(tmp_path).images.pull(f"{registry.host}/team/none:1", ALICE)


async def test_red_hat_compresses_blobs_unless_they_are_asked_for_plain(registry: FakeRegistry, tmp_path: Path) -> None:
    """quay/quay#1310: registry.access.redhat.com sends blobs with Content-Encoding, so that their digests differ."""
    registry.compresses = True
    await pulled(World(tmp_path), registry)


async def test_harbor_serves_a_proxy_project_below_a_path(
    registry: FakeRegistry, other: FakeRegistry, tmp_path: Path
) -> None:
    """goharbor/harbor, "Configure Proxy Cache": the image has the name of the project before its own."""
    other.blobs = registry.blobs
    other.add_manifest("hub/team/app:1", *registry.manifests["team/app:1"])
    directory = tmp_path / "certs.d" / registry.host
    directory.mkdir(parents=True)
    text = f'[host."http://{other.host}/v2/hub"]\ncapabilities = ["pull", "resolve"]\noverride_path = true\n'
    (directory / "hosts.toml").write_text(text)
    await pulled(World(tmp_path, directories=[tmp_path / "certs.d"]), registry)
    assert not registry.seen and other.seen


@pytest.mark.parametrize("scope", ["", ',scope="repository:hub/team/app:pull"'])
async def test_artifactory_names_no_scope_or_that_of_another_path(
    registry: FakeRegistry, tmp_path: Path, scope: str
) -> None:
    """containerd#3556: a challenge without a scope; containerd#4950: the token service is below a path of its own."""
    registry.token, registry.token_user, registry.challenge_scope = "t0ken", "alice:s3cret", scope
    registry.realm = f"http://{registry.host}/artifactory/api/docker/hub/v2/token"
    registry.wanted_scope = "repository:hub/team/app:pull" if scope else "repository:team/app:pull"
    await pulled(World(tmp_path, {registry.host: HostConfig(plain_http=True)}), registry, ALICE)
