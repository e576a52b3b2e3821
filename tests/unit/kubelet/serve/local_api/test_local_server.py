"""The local API: lists, watches, the agent's own paths, errors, limits."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from yarl import URL

from pykubelet.base.errors import Conflict
from pykubelet.kubelet.serve.local_api import LocalServer
from pykubelet.kubelet.types.ids import PodRef, PodUID
from pykubelet.kubelet.types.reports.events import NORMAL
from pykubelet.kubelet.types.reports.timeline import Step
from pykubelet.models import codec
from pykubelet.models import core_v1 as core
from pykubelet.testing.wait import until
from tests.unit.kubelet.report.pods import REF, pod, with_meta
from tests.unit.kubelet.serve.local_api.world import (
    PODS,
    RunningServer,
    WatchClient,
    World,
    answer,
    ended,
    running,
    serving,
)


def named(name: str, namespace: str = "ns", **labels: str) -> core.Pod:
    return with_meta(pod(), name=name, namespace=namespace, uid=f"uid-{name}", labels=labels)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def names(served: RunningServer, path: str) -> list[str]:
    found = await answer(served, path)
    return [item["metadata"]["name"] for item in found["items"]]


# -- lists ------------------------------------------------------------------------------------------------------------


async def test_pods_are_listed_and_read_as_api_objects(world: World) -> None:
    world.set(running())
    async with serving(world) as served:
        found = await answer(served, PODS)
        assert (found["apiVersion"], found["kind"]) == ("v1", "PodList")
        assert found["metadata"]["resourceVersion"] == str(world.pods.table.version)
        assert codec.from_builtins(found, core.PodList).items == world.pods.list()
        one = await answer(served, "/api/v1/namespaces/ns/pods/web")
        assert codec.from_builtins(one, core.Pod) == world.pods.list()[0]
        assert (one["kind"], one["status"]["phase"]) == ("Pod", "Running")


async def test_pods_are_selected_by_namespace_label_and_field(world: World) -> None:
    world.set(running(), named("b", app="web"))
    world.set(ended(phase="Failed"), named("a", app="db"))
    world.set(running(), named("c", "other", app="web"))
    async with serving(world) as served:
        assert await names(served, PODS) == ["a", "b", "c"]
        assert await names(served, "/api/v1/namespaces/ns/pods") == ["a", "b"]
        assert await names(served, f"{PODS}?labelSelector=app%3Dweb") == ["b", "c"]
        assert await names(served, f"{PODS}?labelSelector=app+in+(db,x)") == ["a"]
        assert await names(served, f"{PODS}?fieldSelector=metadata.name%3Db") == ["b"]
        assert await names(served, f"{PODS}?fieldSelector=status.phase!%3DRunning") == ["a"]


async def test_events_are_listed_until_their_time_is_over(world: World) -> None:
    world.events.event(REF, NORMAL, "Started", "Started container app", container="app")
    world.events.event(PodRef("ns", "db", PodUID("u2")), NORMAL, "Killing", "Stopping")
    world.events.event(PodRef("other", "db", PodUID("u3")), NORMAL, "Killing", "Stopping")
    async with serving(world) as served:
        found = await answer(served, "/api/v1/events")
        assert (found["kind"], len(found["items"])) == ("EventList", 3)
        path = "/api/v1/namespaces/ns/events"
        (item,) = (await answer(served, f"{path}?fieldSelector=involvedObject.name%3Dweb"))["items"]
        assert (item["reason"], item["involvedObject"]["fieldPath"]) == ("Started", "spec.containers{app}")
        assert await answer(served, f"{path}/{item['metadata']['name']}") == item
        async with served.get(f"{path}/none") as response:
            assert response.status == 404
        await world.clock.advance(7 * 86400 + 1)
        assert (await answer(served, "/api/v1/events"))["items"] == []


async def test_event_lists_include_those_that_are_only_in_the_history(world: World) -> None:
    world.events.event(REF, NORMAL, "Old", "")
    world.history.older = list(world.events.list())
    await world.clock.advance(8 * 86400)
    world.events.event(REF, NORMAL, "New", "")
    async with serving(world) as served:
        items = (await answer(served, "/api/v1/events"))["items"]
        assert [item["reason"] for item in items] == ["Old", "New"]
        path = "/api/v1/events?fieldSelector=reason%3DNew"
        assert [item["reason"] for item in (await answer(served, path))["items"]] == ["New"]


# -- watches ----------------------------------------------------------------------------------------------------------


async def test_a_watch_begins_with_what_is_there(world: World) -> None:
    world.set(running(), named("a"))
    async with serving(world) as served, WatchClient(served, f"{PODS}?watch=true") as watch:
        assert await watch.next() == ("ADDED", "a")
        world.set(running(), named("b"))
        assert await watch.next() == ("ADDED", "b")
        world.set(ended(), named("a"))
        event = await watch.event()
        assert (event["type"], event["object"]["kind"]) == ("MODIFIED", "Pod")
        assert "terminated" in event["object"]["status"]["containerStatuses"][0]["state"]
        world.statuses.remove(PodUID("uid-b"))
        assert await watch.next() == ("DELETED", "b")


async def test_a_watch_goes_on_from_a_list(world: World) -> None:
    world.set(running(), named("a"))
    world.set(running(), named("b"))
    async with serving(world) as served:
        version = (await answer(served, PODS))["metadata"]["resourceVersion"]
        world.set(ended(), named("a"))
        world.statuses.remove(PodUID("uid-b"))
        world.set(running(), named("c"))
        async with WatchClient(served, f"{PODS}?watch=1&resourceVersion={version}") as watch:
            assert [await watch.next() for _ in range(3)] == [("MODIFIED", "a"), ("DELETED", "b"), ("ADDED", "c")]
            world.set(ended(), named("c"))
            assert await watch.next() == ("MODIFIED", "c")


async def test_watch_from_a_version_of_an_earlier_agent_is_expired(world: World) -> None:
    async with serving(world) as served, served.get(f"{PODS}?watch=true&resourceVersion=5") as response:
        assert (response.status, (await response.json())["reason"]) == (410, "Expired")


async def test_watch_tells_when_a_pod_joins_or_leaves_the_selection(world: World) -> None:
    world.set(running(), named("a", app="web"))
    world.set(running(), named("b", app="db"))
    async with serving(world) as served, WatchClient(served, f"{PODS}?watch=true&labelSelector=app%3Dweb") as watch:
        assert await watch.next() == ("ADDED", "a")
        world.set(ended(), named("b", app="db"))
        world.set(ended(), named("b", app="web"))
        assert await watch.next() == ("ADDED", "b")
        world.set(ended(), named("a", app="db"))
        assert await watch.next() == ("DELETED", "a")


async def test_a_watch_with_a_time_and_initial_events(world: World) -> None:
    world.set(running(), named("a"))
    path = f"{PODS}?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&timeoutSeconds=1"
    async with serving(world) as served, WatchClient(served, path) as watch:
        assert await watch.next() == ("ADDED", "a")
        bookmark = await watch.event()
        assert bookmark["type"] == "BOOKMARK"
        assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert await watch.end() == b""


async def test_watch_of_events_tells_of_new_and_repeated_ones(world: World) -> None:
    path = "/api/v1/namespaces/ns/events?watch=true"
    async with serving(world) as served, WatchClient(served, path) as watch:
        world.events.event(REF, NORMAL, "Started", "m")
        assert (await watch.event())["type"] == "ADDED"
        world.events.event(REF, NORMAL, "Started", "m")
        event = await watch.event()
        assert (event["type"], event["object"]["count"]) == ("MODIFIED", 2)


async def test_a_slow_watcher_gets_the_newest_and_others_do_not_wait(world: World) -> None:
    path = f"{PODS}?watch=true"
    async with serving(world) as served, WatchClient(served, path) as slow, WatchClient(served, path) as fast:
        big = {"note": "x" * 200_000}
        for i in range(50):
            world.set(running(restarts=i), with_meta(named("a"), annotations=big))
            assert restarts(await fast.event()) == i
        seen = [restarts(await slow.event())]
        while seen[-1] != 49:
            seen.append(restarts(await slow.event()))
        assert len(seen) < 50, "steps it was too slow for were left out"


def restarts(event: Any) -> int:
    count: int = event["object"]["status"]["containerStatuses"][0]["restartCount"]
    return count


async def test_watchers_that_leave_are_forgotten(world: World) -> None:
    async with serving(world) as served:
        for _ in range(10):
            watches = [WatchClient(served, f"{PODS}?watch=true") for _ in range(20)]
            for watch in watches:
                await watch.__aenter__()
            assert world.pods.table.watchers == 20
            for watch in watches:
                await watch.__aexit__()
            await until(lambda: world.pods.table.watchers == 0)


# -- the agent's own paths --------------------------------------------------------------------------------------------


async def test_timeline_of_a_pod_is_served_once_it_has_begun(world: World) -> None:
    world.set(running())
    path = "/pykubelet/v1/timeline/ns/web"
    async with serving(world) as served:
        async with served.get(path) as response:
            assert response.status == 404
        world.timelines.begin(REF.uid, Step.PULL, "app")
        found = await answer(served, path)
        assert [(s["step"], s["container"]) for s in found["steps"]] == [("pull", "app")]
        async with served.get("/pykubelet/v1/timeline/ns/none") as response:
            assert response.status == 404


async def test_problems_images_and_objects_of_other_stages_are_served(world: World) -> None:
    world.set(running())
    async with serving(world) as served:
        (image,) = (await answer(served, "/pykubelet/v1/images"))["items"]
        assert image["repoTags"] == ["busybox:1"]
        (pull,) = (await answer(served, "/pykubelet/v1/pulls"))["items"]
        assert pull == {"image": "docker.io/library/busybox:1", "phase": "downloading", "done": 1, "total": 4}
        (problem,) = (await answer(served, "/pykubelet/v1/problems"))["items"]
        assert problem["subject"] == "web.yaml"
        assert (await answer(served, "/pykubelet/v1/explain/ns/web"))["uid"] == "uid-1"
        async with served.get("/pykubelet/v1/explain/ns/none") as response:
            assert response.status == 404
        (end,) = (await answer(served, "/pykubelet/v1/restarts/ns/web"))["items"]
        assert (end["container"], end["containerId"], end["exitCode"]) == ("c", "x://1", 3)
        (secret,) = (await answer(served, "/pykubelet/v1/objects"))["items"]
        assert secret["keys"] == ["password"]
        node = await answer(served, "/pykubelet/v1/node")
        assert (node["name"], node["maxPods"], node["objects"]) == ("n", 110, [secret])
        version = await answer(served, "/pykubelet/v1/version")
        assert (version["agent"], version["runtimeName"]) == ("0.1.0", "containerd")
        usage = await answer(served, "/pykubelet/v1/usage")
        assert usage["node"]["cpu"]["usageNanoCores"] == 250_000_000
        await answer(served, "/pykubelet/v1/usage?maxAgeSeconds=2")
        assert world.asked_ages == [None, 2]
        async with served.get("/pykubelet/v1/usage?maxAgeSeconds=0") as response:
            assert response.status == 422


async def test_restart_and_retry_are_passed_on_if_they_are_possible(world: World) -> None:
    world.set(running())
    async with serving(world) as served:
        for path, status, reason in (
            ("restart/ns/web", 202, ""),
            ("restart/ns/web?container=app", 202, ""),
            ("restart/ns/web?container=none", 404, "has no container 'none'"),
            ("retry/ns/web", 202, ""),
            ("retry/ns/none", 404, "not found"),
        ):
            async with served.post(f"/pykubelet/v1/{path}") as response:
                assert response.status == status
                assert reason in (await response.json()).get("message", "")
        async with served.get("/pykubelet/v1/restart/ns/web") as response:
            assert response.status == 405
        world.set(replace(running(), phase="Failed"))
        for path in ("restart/ns/web", "retry/ns/web"):
            async with served.post(f"/pykubelet/v1/{path}") as response:
                assert response.status == 409
    assert world.requests.made == [("restart", "uid-1", ""), ("restart", "uid-1", "app"), ("retry", "uid-1", "")]


async def test_grace_period_of_a_deletion_is_passed_on_unless_a_source_lists_the_pod(world: World) -> None:
    world.set(running())
    async with serving(world) as served:
        for path, status, reason in (
            ("stop/uid-1?gracePeriodSeconds=0", 202, ""),
            ("stop/uid-1?gracePeriodSeconds=7", 202, ""),
            ("stop/uid-1?gracePeriodSeconds=-1", 400, "not a number of seconds"),
            ("stop/uid-1?gracePeriodSeconds=99999999999", 400, "not a number of seconds"),
            ("stop/uid-1", 400, "not a number of seconds"),
            ("stop/none?gracePeriodSeconds=1", 404, "no pod has the uid none"),
        ):
            async with served.post(f"/pykubelet/v1/{path}") as response:
                assert (response.status, path) == (status, path)
                assert reason in (await response.json()).get("message", "")
        world.requests.listed.add("uid-1")
        async with served.post("/pykubelet/v1/stop/uid-1?gracePeriodSeconds=0") as response:
            assert response.status == 409
    assert world.requests.made == [("stop", "uid-1", "0"), ("stop", "uid-1", "7")]


async def test_documents_are_applied(world: World) -> None:
    body = {"documents": [{"origin": "web.yaml", "text": "kind: Pod"}], "namespace": "apart", "dryRun": True}
    async with serving(world) as served, served.post("/pykubelet/v1/apply", json.dumps(body).encode()) as response:
        assert response.status == 200
        changed = {"label": "pod/web", "namespace": "apart", "change": "created", "uid": "u"}
        assert (await response.json())["changes"] == [changed]
    [request] = world.manifests.applied
    assert (request.namespace, request.dry_run) == ("apart", True)
    assert [(each.origin, each.text) for each in request.documents] == [("web.yaml", "kind: Pod")]


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"documents": 1}', b'{"documents": [], "other": 1}', b"\xff"])
async def test_request_that_is_no_list_of_documents_is_rejected(world: World, body: bytes) -> None:
    async with serving(world) as served, served.post("/pykubelet/v1/apply", body) as response:
        assert response.status == 400
        assert "no list of documents" in (await response.json())["message"]
    assert world.manifests.applied == []


async def test_request_with_a_long_body_is_rejected(world: World) -> None:
    async with serving(world) as served, served.post("/pykubelet/v1/apply", b" " * 70_000) as response:
        assert response.status == 413
    assert world.manifests.applied == []


async def test_manifest_files_are_served(world: World) -> None:
    async with serving(world) as served:
        found = await answer(served, "/pykubelet/v1/manifests")
    assert (found["path"], found["nodeName"]) == ("/m", "n1")
    assert found["items"][0]["objects"] == ["Pod ns/web"]


async def test_state_of_the_configuration_is_served(world: World) -> None:
    async with serving(world) as served:
        found = await answer(served, "/pykubelet/v1/config")
    assert (found["error"], found["errorAt"], found["restart"]) == ("port: wrong", 2.0, ["port"])


async def test_health_on_the_socket_names_the_failed_check(world: World) -> None:
    async with serving(world) as served:
        found = await answer(served, "/pykubelet/v1/healthz")
        assert found["healthy"] is True
        world.faults["pleg"] = "pleg was last seen active 4m0s ago"
        async with served.get("/pykubelet/v1/healthz") as response:
            assert response.status == 503
            found = await response.json()
        assert found["checks"][1] == {"name": "pleg", "ok": False, "message": "pleg was last seen active 4m0s ago"}


async def test_discovery_lists_versions_groups_and_resources(world: World) -> None:
    async with serving(world) as served:
        assert (await answer(served, "/api"))["versions"] == ["v1"]
        assert (await answer(served, "/apis"))["kind"] == "APIGroupList"
        resources = (await answer(served, "/api/v1"))["resources"]
        assert {"pods", "pods/log", "pods/exec", "events"} <= {r["name"] for r in resources}
        version = await answer(served, "/version")
        assert (version["major"], version["minor"], version["gitVersion"]) == ("1", "36", "v1.36.0")


# -- errors and limits ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "code", "reason"),
    [
        ("GET", "/nowhere", 404, "NotFound"),
        ("DELETE", "/api/v1/namespaces/ns/pods/web", 405, "MethodNotAllowed"),
        ("POST", "/api/v1/pods", 405, "MethodNotAllowed"),
        ("GET", "/api/v1/namespaces/ns/pods/none", 404, "NotFound"),
        ("GET", f"{PODS}?labelSelector=a%3Db%3Dc", 400, "BadRequest"),
        ("GET", f"{PODS}?fieldSelector=spec.color%3Dred", 400, "BadRequest"),
        ("GET", f"{PODS}?watch=perhaps", 400, "BadRequest"),
        ("GET", f"{PODS}?watch=true&resourceVersion=x", 400, "BadRequest"),
    ],
)
async def test_errors_are_status_objects(world: World, method: str, path: str, code: int, reason: str) -> None:
    async with serving(world) as served, served.client.request(method, f"http://localhost{path}") as response:
        assert response.status == code
        status = await response.json()
    assert (status["kind"], status["status"], status["code"], status["reason"]) == ("Status", "Failure", code, reason)
    assert status["message"]


async def test_unavailable_runtime_gives_503(world: World) -> None:
    world.images.runtime_down = True
    async with serving(world) as served, served.get("/pykubelet/v1/images") as response:
        assert (response.status, response.headers["Retry-After"]) == (503, "2")
        status = await response.json()
    assert (status["reason"], status["details"]["retryAfterSeconds"]) == ("ServiceUnavailable", 2)


async def test_a_defect_is_logged_and_not_shown(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise ValueError("secret detail")

    monkeypatch.setattr(world, "problems", broken)
    async with serving(world) as served, served.get("/pykubelet/v1/problems") as response:
        assert response.status == 500
        assert "secret" not in await response.text()
    assert "request failed" in caplog.text


async def test_requests_are_measured_by_route(world: World) -> None:
    async with serving(world) as served:
        for path in (PODS, "/api/v1/namespaces/a/pods/x", "/api/v1/namespaces/b/pods/y", "/nowhere/1", "/nowhere/2"):
            async with served.get(path) as response:
                await response.read()
    text = world.metrics.render().decode()
    labels = 'long_running="false",method="GET",path="{}",server_type="local"'
    for path, count in (
        (PODS, 1.0),
        ("/api/v1/namespaces/{namespace}/pods/{name}", 2.0),
        ("other", 2.0),
    ):
        assert f"kubelet_http_requests_total{{{labels.replace('{}', path)}}} {count}" in text
        assert f"kubelet_http_inflight_requests{{{labels.replace('{}', path)}}} 0.0" in text


async def test_second_agent_on_the_same_socket_is_rejected(world: World) -> None:
    async with serving(world) as served:
        with pytest.raises(Conflict, match="another agent"):
            await LocalServer(world.config, world.deps).run()
        assert (await answer(served, PODS))["kind"] == "PodList"


async def test_replaced_pods_keep_their_metadata(world: World) -> None:
    world.set(replace(running(), reason="Why"), named("a", app="web"))
    async with serving(world) as served:
        (item,) = (await answer(served, PODS))["items"]
    assert item["metadata"]["labels"] == {"app": "web"}
    assert item["status"]["reason"] == "Why"


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/ns/pods/web/%65xec?command=ls&stdout=1",
        "/api/v1/namespaces/ns/pods/web//exec",
        "/api/v1/namespaces/ns/pods/../pods/web",
        "/api/v1/namespaces/ns/pods/web%2Flog",
    ],
)
async def test_path_in_another_spelling_is_refused(world: World, path: str) -> None:
    world.set(running())
    async with serving(world) as served, served.client.get(URL(f"http://localhost{path}", encoded=True)) as response:
        assert response.status == 400
        assert "normal form" in (await response.json())["message"]
    assert not world.streams.asked
