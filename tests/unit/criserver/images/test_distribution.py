"""Pulls from the distribution project's own registry: what it asks for, we can give."""

import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid, NotFound, Permanent
from pykubelet.criserver.images import AuthConfig, ImageRecord
from pykubelet.criserver.images.image_types import Denied, Unauthenticated
from pykubelet.criserver.images.registry import HostConfig, Tls
from pykubelet.testing.certificates import Authority
from pykubelet.testing.distribution import PASSWORD, PROGRAM, USER, DistributionRegistry, Options
from pykubelet.testing.ociimage import ImageSpec, pack
from tests.unit.criserver.images.stores import open_stores
from tests.unit.criserver.images.world import World

pytestmark = pytest.mark.skipif(shutil.which(PROGRAM) is None, reason=f"needs a registry: apt-get install {PROGRAM}")

ALICE = AuthConfig(username=USER, password=PASSWORD)
MALLORY = AuthConfig(username=USER, password="guessed")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("archive") / "image.tar"
    pack(ImageSpec("localhost/team/app:1", files={"/etc/motd": b"hello"}), path, os.uname().machine)
    return path


def registry(directory: Path, **options: object) -> AbstractContextManager[DistributionRegistry]:
    return DistributionRegistry(directory, Options(**options))  # type: ignore[arg-type]  # its own fields


async def pull(world: World, reference: str, auth: AuthConfig | None = None) -> ImageRecord:
    image = await world.images.pull(reference, auth)
    world.check(image)
    return image


async def test_registry_on_loopback_is_read_over_plain_http(tmp_path: Path, archive: Path) -> None:
    with registry(tmp_path / "r") as server:
        digest = server.push(archive, "team/app", "1")
        image = await pull(World(tmp_path / "w"), f"{server.host}/team/app:1")
        assert image.digests == (f"{server.host}/team/app@{digest}",)
        again = await pull(World(tmp_path / "w2"), f"{server.host}/team/app@{digest}")
        assert (again.id, again.tags, again.digests) == (image.id, (), image.digests)
        with pytest.raises(NotFound, match="MANIFEST_UNKNOWN"):
            await pull(World(tmp_path / "w"), f"{server.host}/team/app:2")
        with pytest.raises(NotFound, match="team/none:1"):
            await pull(World(tmp_path / "w"), f"{server.host}/team/none:1")


@pytest.mark.root
async def test_it_is_unpacked_too(tmp_path: Path, archive: Path) -> None:
    with registry(tmp_path / "r") as server:
        server.push(archive, "team/app", "1")
        world = World(tmp_path / "w")
        stores = open_stores(tmp_path / "stores", world.registry)
        image = await stores.images.pull(f"{server.host}/team/app:1")
        root = await stores.snapshots.prepare_rootfs(image, "c1")
        try:
            assert (root / "etc/motd").read_bytes() == b"hello"
        finally:
            await stores.snapshots.remove_rootfs("c1")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secured(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority, archive: Path
) -> Iterator[DistributionRegistry]:
    tls = authority.issue("server", ["127.0.0.1", "localhost"])
    pusher = authority.issue("pusher")
    with registry(tmp_path_factory.mktemp("secured"), tls=tls, client_ca=authority.ca, pusher=pusher) as server:
        server.push(archive, "team/app", "1")
        yield server


async def test_pull_by_tls_needs_the_authority_of_the_registry(
    tmp_path: Path, secured: DistributionRegistry, authority: Authority
) -> None:
    client = authority.issue("client")
    reference = f"{secured.host}/team/app:1"
    own = Tls(ca=str(authority.ca), client_certificate=str(client.certificate), client_key=str(client.key))
    await pull(World(tmp_path / "1", {secured.host: HostConfig(tls=own)}), reference)
    either = Tls(client_certificate=str(client.certificate), client_key=str(client.key), skip_verify=True)
    await pull(World(tmp_path / "2", {secured.host: HostConfig(tls=either)}), reference)


async def test_tls_that_is_not_trusted(tmp_path: Path, secured: DistributionRegistry, authority: Authority) -> None:
    reference = f"{secured.host}/team/app:1"
    other = Authority(tmp_path / "other", "another authority")
    with pytest.raises(Permanent, match="not trusted; set its authority"):
        await pull(World(tmp_path / "1", {secured.host: HostConfig(tls=Tls(str(other.ca)))}), reference)
    with pytest.raises(Unauthenticated, match="client certificate"):
        await pull(World(tmp_path / "2", {secured.host: HostConfig(tls=Tls(str(authority.ca)))}), reference)
    with pytest.raises(Permanent, match="it uses TLS; configure how"):
        await pull(World(tmp_path / "4"), reference)
    for broken in (Tls("/no/such/file"), Tls(__file__), Tls(client_certificate="/no/such/file")):
        with pytest.raises(Invalid, match=rf"registry {secured.host}.*(/no/such|{__file__})"):
            await pull(World(tmp_path / "3", {secured.host: HostConfig(tls=broken)}), reference)


async def test_tls_where_there_is_none(tmp_path: Path) -> None:
    with registry(tmp_path / "r") as server, pytest.raises(Permanent, match="does not use TLS"):
        await pull(World(tmp_path, {server.host: HostConfig(tls=Tls(skip_verify=True))}), f"{server.host}/a:1")


async def test_registry_with_a_password_refuses_wrong_credentials(tmp_path: Path, archive: Path) -> None:
    with registry(tmp_path / "r", password=True) as server:
        server.push(archive, "team/app", "1")
        reference = f"{server.host}/team/app:1"
        await pull(World(tmp_path / "1"), reference, ALICE)
        await pull(World(tmp_path / "2"), reference, AuthConfig(auth="YWxpY2U6czNjcmV0"))
        await pull(World(tmp_path / "3", {server.host: HostConfig(username=USER, password=PASSWORD)}), reference)
        for wrong in (None, MALLORY):
            with pytest.raises(Unauthenticated, match=f"{server.host}.*credentials"):
                await pull(World(tmp_path / "4"), reference, wrong)


async def test_registry_with_tokens_refuses_wrong_credentials(tmp_path: Path, archive: Path) -> None:
    with registry(tmp_path / "r", tokens=True) as server:
        server.push(archive, "team/app", "1")
        reference = f"{server.host}/team/app:1"
        await pull(World(tmp_path / "1"), reference, ALICE)
        for wrong in (None, MALLORY):
            with pytest.raises((Unauthenticated, Denied), match="token for"):
                await pull(World(tmp_path / "2"), reference, wrong)


async def test_image_of_a_mirror_keeps_the_name_of_its_registry(tmp_path: Path, archive: Path) -> None:
    with registry(tmp_path / "r", password=True) as server:
        server.push(archive, "library/app", "1")
        dead = "http://127.0.0.1:1"
        hosts = {
            "docker.io": HostConfig((dead, f"http://{server.host}")),
            server.host: HostConfig(username=USER, password=PASSWORD),
        }
        image = await pull(World(tmp_path / "1", hosts), "app:1", AuthConfig(username="hub", password="hub"))
        assert image.tags == ("docker.io/library/app:1",)
