"""The node's log files over HTTP; files outside the directory are not reachable."""

import os
from pathlib import Path

import pytest

from tests.unit.kubelet.serve.kubelet_api.world import NodeWorld, Pki, as_admin


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def world(tmp_path: Path, pki: Pki) -> NodeWorld:
    world = NodeWorld(tmp_path, pki)
    (tmp_path / "secret").write_text("outside")
    logs = world.node_logs
    (logs / "pods").mkdir()
    (logs / "pods" / "0.log").write_bytes(b"x" * 700_000)
    (logs / "empty").touch()
    (logs / "inside").symlink_to("pods/0.log")
    (logs / "outside").symlink_to(tmp_path / "secret")
    (logs / "above").symlink_to("../secret")
    (logs / "with space&<b>").touch()
    os.mkfifo(logs / "pipe")
    return world


@pytest.mark.parametrize(
    ("path", "size"), [("/logs/pods/0.log", 700_000), ("/logs/empty", 0), ("/logs/inside", 700_000)]
)
async def test_files_are_sent_whole(world: NodeWorld, path: str, size: int) -> None:
    async with as_admin(world) as client, client.get(path) as response:
        assert response.status == 200
        assert response.content_length == size
        assert len(await response.read()) == size


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/logs/outside", 404),
        ("/logs/above", 404),
        ("/logs/../secret", 404),
        ("/logs/%2e%2e/secret", 404),
        ("/logs/..%2fsecret", 404),
        ("/logs/pods/..%2f..%2fsecret", 404),
        ("/logs/pipe", 400),
        ("/logs/none", 404),
        ("/logs/empty/below", 404),
        ("/logs/nul%00", 400),
    ],
)
async def test_nothing_else_is_reached(world: NodeWorld, path: str, status: int) -> None:
    async with as_admin(world) as client, client.get(path) as response:
        text = await response.text()
        assert "outside" not in text or "outside" in path
        assert response.status in (status, 400), text


async def test_a_directory_is_a_list_of_links(world: NodeWorld) -> None:
    async with as_admin(world) as client, client.get("/logs/") as response:
        assert response.content_type == "text/html"
        lines = (await response.text()).splitlines()
    assert '<a href="pods/">pods/</a>' in lines
    assert '<a href="with%20space%26%3Cb%3E">with space&amp;&lt;b&gt;</a>' in lines


async def test_names_that_are_not_utf8_are_listed_with_escapes(world: NodeWorld) -> None:
    """A pod with a volume among the logs chooses them."""
    Path(os.fsdecode(os.fsencode(world.node_logs) + b"/caf\xe9")).touch()
    (world.node_logs / "two\nlines").touch()
    async with as_admin(world) as client, client.get("/logs/") as response:
        assert response.status == 200
        lines = (await response.text()).splitlines()
    assert r'<a href="caf%E9">caf\xe9</a>' in lines
    assert r'<a href="two%0Alines">two\nlines</a>' in lines
    assert '<a href="pods/">pods/</a>' in lines


async def test_list_of_a_huge_directory_is_limited(world: NodeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykubelet.kubelet.serve.kubelet_api.routes.node_logs._MOST_NAMES", 3)
    async with as_admin(world) as client, client.get("/logs/") as response:
        lines = (await response.text()).splitlines()
    assert sum("<a href" in line for line in lines) == 3
    assert "more than 3 names; the others are left out" in lines
