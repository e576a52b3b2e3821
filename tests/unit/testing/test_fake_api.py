"""The fake API server, as clients need it that expect more of it than this project's one: the Go kubelet."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from benchmarks.go_kubelet import GoKubelet
from pykubelet.testing.fake_api import FakeApi
from pykubelet.testing.fake_api.store import Place, Store

PODS = Place("/api/v1", "pods", "default")
PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}


@pytest.fixture
async def fake() -> AsyncIterator[FakeApi]:
    async with FakeApi() as made:
        yield made


def created(**spec: Any) -> dict[str, Any]:
    made = Store().create(PODS, {"metadata": {"name": "a"}, "spec": spec})
    assert isinstance(made["spec"], dict)
    return made["spec"]


def test_new_pod_has_the_defaults_of_an_api_server() -> None:
    spec = created(
        containers=[
            {
                "name": "c",
                "image": "example.com/web",
                "ports": [{"containerPort": 80}],
                "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "livenessProbe": {"httpGet": {"port": 80}},
                "resources": {"limits": {"cpu": "1"}},
            }
        ],
        volumes=[{"name": "v", "configMap": {"name": "m"}}, {"name": "e"}],
    )
    container = {
        "name": "c",
        "image": "example.com/web",
        "imagePullPolicy": "Always",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "ports": [{"containerPort": 80, "protocol": "TCP"}],
        "env": [{"name": "N", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
        "livenessProbe": {"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, **PROBE},
        "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}},
    }
    assert spec == {
        "containers": [container],
        "volumes": [{"name": "v", "configMap": {"name": "m", "defaultMode": 0o644}}, {"name": "e", "emptyDir": {}}],
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "enableServiceLinks": True,
        "terminationGracePeriodSeconds": 30,
    }


def test_values_of_a_new_pod_are_kept() -> None:
    given = {
        "containers": [{"name": "c", "image": "a:1", "imagePullPolicy": "Never", "unknown": 0}],
        "restartPolicy": "Never",
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 0,
        "hostNetwork": False,
    }
    spec = created(**given)
    assert {key: spec[key] for key in given if key != "containers"} == {
        key: each for key, each in given.items() if key != "containers"
    }
    container = spec["containers"][0]
    assert (container["imagePullPolicy"], container["unknown"]) == ("Never", 0)


@pytest.mark.parametrize(
    ("prefix", "plural", "version"),
    [("/api/v1", "pods", "v1"), ("/apis/storage.k8s.io/v1", "csinodes", "storage.k8s.io/v1")],
)
async def test_all_objects_name_their_version(fake: FakeApi, prefix: str, plural: str, version: str) -> None:
    """The Go client decodes no object without one."""
    fake.store.create(Place(prefix, plural), {"metadata": {"name": "a"}})
    url, since = f"{fake.config.server}{prefix}/{plural}", "?watch=true&allowWatchBookmarks=true&resourceVersion=100"
    seen: list[tuple[str, str]] = []
    async with aiohttp.ClientSession() as session:
        async with session.get(url) as answer:
            listed = await answer.json()
        async with session.get(f"{url}{since}") as answer:
            while len(seen) < 2:
                event = json.loads(await answer.content.readline())
                seen.append((event["type"], event["object"]["apiVersion"]))
    assert [listed["apiVersion"], listed["items"][0]["apiVersion"]] == [version, version]
    assert seen == [("ADDED", version), ("BOOKMARK", version)]


async def test_watch_that_asks_for_a_list_is_refused(fake: FakeApi) -> None:
    """Its client would wait for the end of that list; refused, it asks for a list and then watches."""
    query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{fake.config.server}/api/v1/pods?{query}") as answer,
    ):
        assert (answer.status, (await answer.json())["reason"]) == (422, "Invalid")


@pytest.mark.parametrize("json_only", [True, False])
def test_go_kubelet_asks_for_json_where_its_api_server_reads_nothing_else(tmp_path: Path, json_only: bool) -> None:
    made = GoKubelet(Path("kubelet"), tmp_path, tmp_path / "s", "/c", tmp_path / "kubeconfig", json_only=json_only)
    assert made._configuration().get("contentType") == ("application/json" if json_only else None)
