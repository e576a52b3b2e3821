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
