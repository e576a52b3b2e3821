"""``pykubelet image`` with a served image service, a registry and archives."""

import asyncio
import gzip
import json
import os
import random
import re
import shutil
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from click.testing import CliRunner, Result

from pykubelet.base import proc
from pykubelet.base.errors import Invalid, NotFound, Permanent, Transient, Unsupported
from pykubelet.cli.app import cli
from pykubelet.cli.client.image_client import ImageClient, choose_endpoint
from pykubelet.cli.client.registry_auth import find_auth, from_docker_config
from pykubelet.cli.commands.node.image import _complete, command
from pykubelet.cli.output.image_progress import Lines, progress_output
from pykubelet.criserver.images import ImageRecord
from pykubelet.criserver.images.manifests import digest_of
from pykubelet.pb import images_v1_pb2 as transfer
from pykubelet.testing.ociimage import ImageSpec, pack
from pykubelet.testing.wait import until
from tests.unit.criserver.images.fakeregistry import FakeRegistry
from tests.unit.criserver.images.served import serve
from tests.unit.criserver.images.stores import Stores, open_stores
from tests.unit.criserver.images.world import World

NAME = "localhost/demo/busybox:1"


class Commands:
    """The command line, and the server behind its socket."""

    def __init__(self, socket: str, stores: Stores) -> None:
        self.socket = socket
        self.stores = stores

    async def run(self, *arguments: str, input: bytes | None = None) -> Result:
        full = ["image", "--endpoint", self.socket, *arguments]
        return await asyncio.to_thread(CliRunner().invoke, cli, full, input=input)

    async def good(self, *arguments: str, input: bytes | None = None) -> str:
        done = await self.run(*arguments, input=input)
        assert done.exit_code == 0, (done.output, done.exception)
        return done.stdout

    def only(self) -> ImageRecord:
        (image,) = self.stores.images.list()
        return image


@pytest.fixture
async def commands(tmp_path: Path) -> AsyncIterator[Commands]:
    stores = open_stores(tmp_path / "root", World(tmp_path / "world").registry)
    async with serve(stores.images, tmp_path) as socket:
        yield Commands(socket, stores)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "image.tar"
    pack(ImageSpec(NAME, user="app", labels={"a": "b"}), path, os.uname().machine)
    return path


@pytest.mark.root
async def test_imported_image_is_listed_inspected_and_removed(commands: Commands, archive: Path) -> None:
    assert await commands.good("import", str(archive)) == f"{NAME} {commands.only().id[7:19]}\n"
    lines = (await commands.good("ls")).splitlines()
    assert lines[0].split() == ["IMAGE", "ID", "SIZE"] and lines[1].split()[:2] == [NAME, commands.only().id[7:19]]
    assert (await commands.good("ls", "-q")) == f"{commands.only().id}\n"
    digest = commands.only().digests[0].partition("@")[2]
    assert digest in await commands.good("ls", "--digests", NAME)
    (listed,) = json.loads(await commands.good("ls", "-o", "json"))
    assert (listed["repoTags"], listed["username"], listed["pinned"]) == ([NAME], "app", False)
    (found,) = json.loads(await commands.good("inspect", NAME))
    assert found["info"]["imageSpec"]["config"]["Labels"] == {"a": "b"}
    assert found["info"]["chainID"] == commands.only().layers[-1]
    identity = found["status"]["id"]
    assert (
        await commands.good("rm", identity)
        == f"untagged: {NAME}\nuntagged: {listed['repoDigests'][0]}\nremoved: {identity}\n"
    )
    again = await commands.run("rm", NAME)
    assert again.exit_code == 1 and f"image {NAME} is not present" in again.stderr
    assert isinstance((await commands.run("inspect", NAME)).exception, NotFound)
    assert commands.stores.images.list() == []


@pytest.mark.root
@pytest.mark.parametrize("suffix", ["tar", "tar.gz", "tar.zst"])
async def test_exported_archive_can_be_imported(commands: Commands, archive: Path, tmp_path: Path, suffix: str) -> None:
    await commands.good("import", str(archive))
    before = commands.only()
    out = tmp_path / f"out.{suffix}"
    await commands.good("export", NAME, "-o", str(out))
    magic = {"tar": b"oci-", "tar.gz": b"\x1f\x8b", "tar.zst": b"\x28\xb5\x2f\xfd"}[suffix]
    assert out.read_bytes().startswith(magic)
    await commands.good("rm", NAME)
    assert commands.stores.content.digests() == set()
    await commands.good("import", "-", input=out.read_bytes())
    assert commands.only() == before
    assert [path.name for path in tmp_path.glob(".*.part")] == []


@pytest.mark.root
async def test_new_names_at_import(commands: Commands, archive: Path, tmp_path: Path) -> None:
    shown = await commands.good("import", str(archive), "-t", "demo:two", "--tag", "quay.io/x/y")
    assert shown.startswith("docker.io/library/demo:two, quay.io/x/y:latest ")
    assert commands.only().tags == ("docker.io/library/demo:two", "quay.io/x/y:latest")
    other = tmp_path / "other.tar"
    pack(ImageSpec("localhost/other:1", files={"/x": b""}), other, os.uname().machine)
    await commands.good("import", str(other))
    both = tmp_path / "both.tar"
    await commands.good("export", "demo:two", "localhost/other:1", "-o", str(both))
    with tarfile.open(both) as packed:
        manifest = packed.extractfile("manifest.json")
        assert manifest is not None
        assert [one["RepoTags"] for one in json.load(manifest)] == [["demo:two"], ["localhost/other:1"]]
    for image in commands.stores.images.list():
        await commands.good("rm", image.id)
    refused = await commands.run("import", str(both), "-t", "one:1")
    assert isinstance(refused.exception, Permanent) and str(refused.exception).startswith(f"{both}: ")
    assert "has 2 images (docker.io/library/demo:two, localhost/other:1)" in str(refused.exception)
    await commands.good("import", str(both))
    assert {tag for image in commands.stores.images.list() for tag in image.tags} == {
        "docker.io/library/demo:two",
        "localhost/other:1",
    }
    bad = await commands.run("import", str(both), "-t", "one@" + digest_of(b""))
    assert isinstance(bad.exception, Permanent)


@pytest.mark.parametrize("data", [b"", b"hello" * 5000, gzip.compress(os.urandom(3_000_000))[:-100]])
async def test_invalid_archive_of_any_length_is_rejected(commands: Commands, data: bytes) -> None:
    done = await commands.run("import", "-", input=data)
    assert isinstance(done.exception, Permanent) and "not an image archive" in str(done.exception)
    assert commands.stores.content.digests() == set()


@pytest.mark.root
async def test_pull_with_lines_of_progress(commands: Commands) -> None:
    layers = [random.Random(1).randbytes(300_000)]
    async with FakeRegistry().run() as registry:
        registry.basic = "alice:s3cret"
        registry.add_image("app:1", layers, [digest_of(layers[0])])
        refused = await commands.run("pull", f"{registry.host}/app:1")
        assert "requires credentials" in str(refused.exception)
        registry.pause = asyncio.Event()
        # A transfer that ends at once may not be shown.
        asyncio.get_running_loop().call_later(1.0, registry.pause.set)
        done = await commands.run("pull", "--creds", "alice:s3cret", f"{registry.host}/app:1")
        # The layer is not a tar archive, so unpacking rejects it; its transfer was shown before.
        assert "app:1: resolving\n" in done.stderr
        assert f"\n{digest_of(layers[0])[7:19]}: downloading 300kB\n" in done.stderr
        assert isinstance(done.exception, Invalid) and "failed to pull image" in str(done.exception)
        missing = await commands.run("pull", "--creds", "alice:s3cret", f"{registry.host}/app:2")
        assert isinstance(missing.exception, NotFound)
    gone = await commands.run("pull", f"{registry.host}/app:1")
    assert isinstance(gone.exception, Transient) and str(gone.exception).startswith("RegistryUnavailable: failed to")


async def test_interrupted_pull_is_cancelled(commands: Commands) -> None:
    layers = [random.Random(1).randbytes(300_000)]
    async with FakeRegistry().run() as registry:
        registry.pause = asyncio.Event()
        registry.add_image("app:1", layers, [digest_of(layers[0])])
        with ImageClient(choose_endpoint(commands.socket)) as client:
            steps: list[int] = []

            def update(batch: object) -> None:
                steps.append(1)
                raise KeyboardInterrupt

            with pytest.raises(KeyboardInterrupt):
                await asyncio.to_thread(_interrupted, client, f"{registry.host}/app:1", update)
        # Otherwise it would go on: the registry waits in the middle of each blob. What has arrived is kept for an hour.
        await until(lambda: not commands.stores.images.running_pulls)
        registry.pause.set()
    assert steps
    assert commands.stores.images.list() == []


def _interrupted(client: ImageClient, reference: str, update: object) -> None:
    client.pull(reference, None, update)  # type: ignore[arg-type]  # it only raises


async def test_image_names_are_completed_from_the_runtime(commands: Commands, archive: Path) -> None:
    if os.geteuid() == 0:
        await commands.good("import", str(archive), "-t", "demo:two")
    parent = command.make_context("image", ["--endpoint", commands.socket, "ls"])
    ctx = command.commands["ls"].make_context("ls", [], parent=parent)
    found = await asyncio.to_thread(_complete, ctx, command.commands["ls"].params[0], "dem")
    assert found == (["docker.io/library/demo:two"] if os.geteuid() == 0 else [])
    dead = command.make_context("image", ["--endpoint", "/no/such.sock", "ls"])
    assert _complete(command.commands["ls"].make_context("ls", [], parent=dead), None, "") == []  # type: ignore[arg-type]


@pytest.mark.root
async def test_rm_of_one_name_keeps_the_others_and_the_last_one_removes_the_image(
    commands: Commands, archive: Path
) -> None:
    await commands.good("import", str(archive))
    identity = commands.only().id
    await commands.good("tag", NAME, "other:2")
    assert commands.only().tags == (NAME, "docker.io/library/other:2")
    assert await commands.good("rm", "other:2") == "untagged: docker.io/library/other:2\n"
    assert (commands.only().id, commands.only().tags) == (identity, (NAME,))
    assert f"removed: {identity}\n" in await commands.good("rm", NAME)
    assert commands.stores.images.list() == [] and commands.stores.content.digests() == set()
    missing = await commands.run("tag", NAME, "x:1")
    assert isinstance(missing.exception, NotFound) and f"image {NAME} is not present" in str(missing.exception)


@pytest.mark.root
async def test_rm_refuses_an_image_that_a_container_uses(tmp_path: Path, archive: Path) -> None:
    stores = open_stores(tmp_path / "root", World(tmp_path / "world").registry)
    users: dict[str, list[str]] = {}
    async with serve(stores.images, tmp_path, users) as socket:
        commands = Commands(socket, stores)
        await commands.good("import", str(archive), "-t", "a:1", "-t", "a:2")
        identity = commands.only().id
        users[identity] = ["container main of pod default/web"]
        await commands.good("rm", "a:1")
        for name in ("a:2", identity):
            refused = await commands.run("rm", name)
            assert refused.exit_code == 1 and commands.only().id == identity
            assert f"image {name} is used by container main of pod default/web; remove the pods" in refused.stderr
        assert (await commands.good("prune", "--all")).startswith("0 images, 0B")
        await commands.good("rm", "--force", "a:2")
        assert stores.images.list() == []


@pytest.mark.root
async def test_prune_removes_what_dry_run_announces_and_nothing_else(commands: Commands, tmp_path: Path) -> None:
    files = [{"/x": bytes([number]) * 100_000} for number in range(3)]
    for number, tags in enumerate((("old:1",), ("kept:1",), ("old:1",))):
        path = tmp_path / f"{number}.tar"
        pack(ImageSpec(f"localhost/n{number}:1", files=files[number]), path, os.uname().machine)
        await commands.good("import", str(path), *(word for tag in tags for word in ("-t", tag)))
    first, kept, tagged = (image.id for image in commands.stores.images.list())
    assert commands.stores.images.list()[0].tags == ()
    before = (await commands.stores.images.fs_info()).used_bytes
    announced = await commands.good("prune", "--dry-run")
    assert f"would remove: <none> {first[7:19]}" in announced or f"{first[7:19]}\n" in announced
    assert len(commands.stores.images.list()) == 3
    pruned = await commands.stores.images.prune(lambda _: (), ("kept:1",), also_tagged=False, dry_run=True)
    done = await commands.good("prune")
    assert done.splitlines()[-1].startswith("1 image, ") and {image.id for image in commands.stores.images.list()} == {
        kept,
        tagged,
    }
    assert before - (await commands.stores.images.fs_info()).used_bytes == pytest.approx(pruned.freed, rel=0.1)
    rest = await commands.stores.images.prune(
        lambda image: ["x"] * (image == tagged), ("kept:1",), also_tagged=True, dry_run=False
    )
    assert rest.images == () and len(commands.stores.images.list()) == 2
    assert (await commands.good("prune", "--all")).startswith("removed: ")
    assert commands.stores.images.list() == []


async def test_import_of_a_missing_file_names_it(commands: Commands, tmp_path: Path) -> None:
    done = await commands.run("import", str(tmp_path / "nope.tar"))
    assert isinstance(done.exception, NotFound)
    assert str(done.exception) == f"{tmp_path / 'nope.tar'}: cannot be read: No such file or directory"


async def test_runtime_without_image_transfer_is_unsupported(tmp_path: Path, archive: Path) -> None:
    server = grpc.aio.server()
    server.add_insecure_port(f"unix:{tmp_path}/other.sock")
    await server.start()
    try:
        arguments = ["image", "--endpoint", f"{tmp_path}/other.sock", "import", str(archive)]
        done = await asyncio.to_thread(CliRunner().invoke, cli, arguments)
        assert isinstance(done.exception, Unsupported)
    finally:
        await server.stop(0)


def test_missing_runtime_is_reported(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["image", "--endpoint", str(tmp_path / "no.sock"), "ls"])
    assert isinstance(done.exception, Transient) and f"no runtime responds at unix://{tmp_path}" in str(done.exception)


@pytest.mark.parametrize(
    ("entries", "host", "expected"),
    [
        ({"ghcr.io": {"auth": "YTpi"}}, "ghcr.io", {"auth": "YTpi"}),
        ({"https://index.docker.io/v1/": {"username": "a", "password": "b"}}, "docker.io", {"username": "a"}),
        ({"https://r:5000/v2/": {"identitytoken": "t"}}, "r:5000", {"identity_token": "t"}),
        ({"ghcr.io": {"auth": "YTpi"}}, "quay.io", None),
        ({"ghcr.io": {}}, "ghcr.io", None),
        ({}, "ghcr.io", None),
    ],
)
def test_docker_configuration_gives_the_credentials_of_the_host(
    tmp_path: Path,
    entries: dict[str, dict[str, str]],
    host: str,
    expected: dict[str, str] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # the helper is not installed
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"auths": entries, "credsStore": "secretservice"}))
    found = from_docker_config(path, host)
    assert (found is None) == (expected is None)
    for name, value in (expected or {}).items():
        assert getattr(found, name) == value


def test_credential_helper_is_asked_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    program, path = tmp_path / "docker-credential-test", tmp_path / "config.json"
    program.write_text("""#!/bin/sh
[ "$(cat)" = ghcr.io ] || { echo credentials not found in native keychain; exit 1; }
echo '{"Username":"anna","Secret":"pw"}'
""")
    program.chmod(0o755)
    path.write_text(json.dumps({"auths": {"ghcr.io": {"auth": "YTpi"}, "quay.io": {}}, "credsStore": "test"}))
    found = from_docker_config(path, "ghcr.io")
    assert found is not None and (found.username, found.password, found.auth) == ("anna", "pw", "")
    assert from_docker_config(path, "quay.io") is None
    assert capsys.readouterr().err == ""
    path.write_text(json.dumps({"credsStore": "none"}))
    assert from_docker_config(path, "ghcr.io") is None
    assert "warning: " in (reported := capsys.readouterr().err)
    assert "credential helper docker-credential-none is not installed" in reported


def test_credentials_from_option_or_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    assert find_auth("ghcr.io/a:1", "", None) is None
    (tmp_path / "config.json").write_text('{"auths": {"ghcr.io": {"auth": "YTpi"}}}')
    auth = find_auth("ghcr.io/a:1", "", None)
    assert auth is not None and auth.auth == "YTpi"
    given = find_auth("ghcr.io/a:1", "me:x:y", None)
    assert given is not None and (given.username, given.password) == ("me", "x:y")
    with pytest.raises(Invalid, match="cannot be read"):
        find_auth("ghcr.io/a:1", "", tmp_path / "none.json")
    (tmp_path / "config.json").write_text("[1]")
    with pytest.raises(Invalid, match="not a docker configuration"):
        find_auth("ghcr.io/a:1", "", None)


def test_progress_lines_are_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines()
    step = transfer.Progress(image="a:1", layer="sha256:0123456789abcdef", phase=transfer.WAITING, total=2000)
    lines.update([transfer.Progress(image="a:1")])
    lines.update([transfer.Progress(image="a:1", phase=transfer.RESOLVED, total=2000), step])
    step.phase = transfer.DOWNLOADING
    lines.update([step])
    step.done = 1000
    lines.update([step])
    step.phase = transfer.DONE
    lines.update([step])
    assert capsys.readouterr().err.splitlines() == [
        "a:1: resolving",
        "a:1: resolved 2kB",
        "0123456789ab: downloading 2kB",
        "0123456789ab: done 2kB",
    ]


def test_progress_bars_sum_up_layers(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with progress_output(quiet=False) as update:
        update([transfer.Progress(image="a:1")])
        update([transfer.Progress(image="a:1", phase=transfer.RESOLVED, total=3000)])
        for layer, total in (("sha256:aaaa", 1000), ("sha256:bbbb", 2000)):
            update([transfer.Progress(image="a:1", layer=layer, phase=transfer.DOWNLOADING, done=500, total=total)])
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().err)
    assert "?" not in plain
    lines = [line.split() for line in plain.splitlines() if "/" in line][-3:]
    assert [(line[0], line[1], line[3:5]) for line in lines] == [
        ("image", "resolved", ["1.0/3.0", "kB"]),
        ("aaaa", "downloading", ["0.5/1.0", "kB"]),
        ("bbbb", "downloading", ["0.5/2.0", "kB"]),
    ]


@pytest.mark.root
async def test_documented_recipe_works(commands: Commands, tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "images.md").read_text()
    (recipe,) = [block for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "manifest.json" in block]
    if missing := [program for program in ("busybox", "dpkg", "sha256sum") if shutil.which(program) is None]:
        pytest.skip(f"needs {', '.join(missing)}")
    await proc.run(["sh", "-euc", recipe], timeout=60, cwd=str(tmp_path))
    shown = await commands.good("import", str(tmp_path / "busybox.tar"))
    assert shown.startswith("localhost/offline/busybox:1 ")
    image = commands.only()
    root = await commands.stores.snapshots.prepare_rootfs(image, "c1")
    try:
        done = await proc.run(["chroot", str(root), "/bin/sh", "-c", "echo works"], timeout=10)
        assert done.stdout == b"works\n"
    finally:
        await commands.stores.snapshots.remove_rootfs("c1")


def test_file_in_the_place_of_an_image_to_export_is_recognized() -> None:
    done = CliRunner().invoke(cli, ["image", "--endpoint", "unix:///nowhere.sock", "export", NAME, "./i.tar"])
    assert isinstance(done.exception, Invalid)
    assert str(done.exception) == "./i.tar is a path, not an image; name the archive with -o ./i.tar"
