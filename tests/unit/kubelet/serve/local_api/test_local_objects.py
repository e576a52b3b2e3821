"""The local API: the node, ConfigMaps and Secrets."""

import base64
from pathlib import Path
from typing import Any

import pytest

from tests.unit.kubelet.serve.local_api.world import RunningServer, World, serving


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def answer(served: RunningServer, path: str, status: int = 200) -> Any:
    async with served.get(path) as response:
        assert response.status == status
        return await response.json()


async def test_objects_are_listed_by_namespace_and_label(world: World) -> None:
    async with serving(world) as served:
        found = await answer(served, "/api/v1/secrets")
        assert (found["apiVersion"], found["kind"]) == ("v1", "SecretList")
        assert [item["metadata"]["name"] for item in found["items"]] == ["other", "s"]
        assert {item["kind"] for item in found["items"]} == {"Secret"}
        for path, names in (
            ("/api/v1/namespaces/ns/secrets", ["s"]),
            ("/api/v1/secrets?labelSelector=app%3Dweb", ["s"]),
            ("/api/v1/secrets?fieldSelector=metadata.name%3Dother", ["other"]),
            ("/api/v1/configmaps", ["c"]),
            ("/api/v1/namespaces/apart/configmaps", []),
            ("/api/v1/nodes", ["node-1"]),
        ):
            assert [item["metadata"]["name"] for item in (await answer(served, path))["items"]] == names, path


async def test_one_object_is_served_with_its_values(world: World) -> None:
    async with serving(world) as served:
        secret = await answer(served, "/api/v1/namespaces/ns/secrets/s")
        assert (secret["kind"], secret["type"]) == ("Secret", "Opaque")
        assert base64.b64decode(secret["data"]["password"]) == b"hidden"
        assert (await answer(served, "/api/v1/namespaces/ns/configmaps/c"))["data"] == {"k": "v"}
        node = await answer(served, "/api/v1/nodes/node-1")
        assert (node["kind"], node["status"]["capacity"]) == ("Node", {"cpu": "4"})


@pytest.mark.parametrize("path", ["namespaces/apart/secrets/s", "namespaces/ns/configmaps/s", "nodes/node-2"])
async def test_a_missing_object_is_not_found(world: World, path: str) -> None:
    async with serving(world) as served:
        assert "not found" in (await answer(served, f"/api/v1/{path}", 404))["message"]


async def test_watching_objects_is_refused(world: World) -> None:
    async with serving(world) as served:
        assert "cannot be watched" in (await answer(served, "/api/v1/secrets?watch=true", 400))["message"]
