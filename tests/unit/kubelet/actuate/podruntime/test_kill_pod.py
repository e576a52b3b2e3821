"""Stopping containers and pods: hooks, grace periods, order."""

import pytest
from grpc import StatusCode

from pykubelet.base.errors import Transient
from pykubelet.base.http.http_get import PlainHttpAnswer
from pykubelet.kubelet.types.ids import ref_of
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.fake_cri import ExecScript, FakeCri, Fault, Script
from tests.unit.kubelet.actuate.podruntime.build import Fields, pod_of, sidecar
from tests.unit.kubelet.actuate.podruntime.world import World


def stops(cri: FakeCri) -> dict[str, tuple[int, float]]:
    """For each container the grace it was stopped with and when, in seconds of virtual time."""
    found = {}
    for record in cri.log:
        if isinstance(record.request, pb.StopContainerRequest):
            found[record.target.rpartition("/")[2]] = (record.request.timeout, record.time)
    return found


def hooked(name: str, hook: Fields) -> Fields:
    return {"name": name, "lifecycle": {"preStop": hook}}


EXEC: Fields = {"exec": {"command": ["bye"]}}


@pytest.mark.parametrize(
    ("grace", "spec", "meta", "timeout"),
    [
        (None, {"terminationGracePeriodSeconds": 30}, {}, 30),
        (None, {"terminationGracePeriodSeconds": 0}, {}, 2),
        (None, {"terminationGracePeriodSeconds": 30}, {"deletionGracePeriodSeconds": 5}, 5),
        (7, {"terminationGracePeriodSeconds": 30}, {"deletionGracePeriodSeconds": 5}, 7),
        (0, {"terminationGracePeriodSeconds": 30}, {}, 2),
        (1, {"terminationGracePeriodSeconds": 30}, {}, 2),
    ],
)
async def test_kill_stops_containers_with_the_grace_period_of_the_pod(
    world: World, grace: int | None, spec: Fields, meta: Fields, timeout: int
) -> None:
    pod = pod_of(meta=meta, **spec)
    await world.settle(pod)
    outcome = await world.kill(pod, grace)
    assert outcome.ok
    assert outcome.changed
    assert stops(world.cri)["app"][0] == timeout
    assert world.events.seen[-1] == "Killing[app]: Stopping container app"
    assert [s.ready for s in world.cri.sandboxes] == [False]
    assert not (await world.kill(pod, grace)).changed


@pytest.mark.parametrize(
    ("duration", "timeout"),
    [(0.0, 30), (4.2, 26), (29.0, 2), (100.0, 2)],
)
async def test_pre_stop_hook_uses_up_the_grace_period(world: World, duration: float, timeout: int) -> None:
    world.cri.script_exec(ExecScript(duration=duration))
    pod = pod_of((hooked("app", EXEC),))
    await world.settle(pod)
    start = world.clock.now()
    await world.during(world.kill(pod), 31)
    assert stops(world.cri)["app"][0] == timeout
    assert stops(world.cri)["app"][1] - start == pytest.approx(min(duration, 30))


async def test_pre_stop_hook_is_skipped_without_grace_period(world: World) -> None:
    pod = pod_of((hooked("app", EXEC),))
    await world.settle(pod)
    await world.kill(pod, 0)
    assert world.cri.calls("ExecSync") == []


async def test_failed_pre_stop_hook_does_not_prevent_the_stop(world: World) -> None:
    world.cri.script_exec(ExecScript(exit_code=1, stdout=b"secret"))
    pod = pod_of((hooked("app", EXEC),))
    await world.settle(pod)
    assert (await world.kill(pod)).ok
    assert "FailedPreStopHook[app]: PreStopHook failed" in world.events.seen
    assert "secret" not in str(world.events.seen)
    assert world.running() == []


async def test_pre_stop_hook_runs_once_although_the_stop_is_retried(world: World) -> None:
    world.cri.inject(Fault("StopContainer", code=StatusCode.UNKNOWN, details="stuck", times=1))
    pod = pod_of((hooked("app", EXEC),))
    await world.settle(pod)
    outcome = await world.kill(pod)
    assert [(f.target, f.reason, f.message) for f in outcome.failures] == [("app", "KillContainerError", "stuck")]
    assert (await world.kill(pod)).ok
    assert world.cri.calls("ExecSync") == ["ns/web/app"]


async def test_http_and_sleep_hooks(world: World) -> None:
    http: Fields = {"httpGet": {"port": "web", "path": "bye", "httpHeaders": [{"name": "X", "value": "y"}]}}
    named: Fields = {**hooked("a", http), "ports": [{"name": "web", "containerPort": 8080}]}
    pod = pod_of((named, hooked("b", {"sleep": {"seconds": 3}})))
    await world.settle(pod)
    await world.during(world.kill(pod), 3)
    assert world.measured == []
    ip = world.cri.sandboxes[0].ip
    assert [(r.url, r.headers) for r in world.http.requests] == [(f"http://{ip}:8080/bye", (("X", "y"),))]
    assert {name: grace for name, (grace, _) in stops(world.cri).items()} == {"a": 30, "b": 27}


async def test_sleep_hook_is_cancelled_at_the_end_of_the_grace_period(world: World) -> None:
    pod = pod_of((hooked("a", {"sleep": {"seconds": 300}}),))
    await world.settle(pod)
    await world.during(world.kill(pod), 30)
    assert world.measured == ["hook sleep ended"]


async def test_unreachable_http_hook_is_reported_and_the_pod_killed(world: World) -> None:
    world.http.errors = [Transient("connection refused")]
    pod = pod_of((hooked("app", {"httpGet": {"port": 80}}),))
    await world.settle(pod)
    assert (await world.kill(pod)).ok
    assert "FailedPreStopHook[app]: PreStopHook failed" in world.events.seen


async def test_sidecars_stop_last_and_in_reverse(world: World) -> None:
    for name, seconds in {"a": 5, "b": 3, "s": 2, "t": 4}.items():
        world.cri.script(Script(stop_after=seconds), container=name)
    pod = pod_of(("a", "b"), (sidecar("s"), sidecar("t")))
    await world.settle(pod)
    start = world.clock.now()
    await world.during(world.kill(pod), 11)
    assert {name: (grace, time - start) for name, (grace, time) in stops(world.cri).items()} == {
        "a": (30, 0),
        "b": (30, 0),
        "t": (25, 5),
        "s": (21, 9),
    }


async def test_sidecars_do_not_wait_beyond_the_grace(world: World) -> None:
    world.cri.script(Script(stop_after=None), container="a")
    pod = pod_of(("a",), (sidecar("s"), sidecar("t")), terminationGracePeriodSeconds=10)
    await world.settle(pod)
    start = world.clock.now()
    await world.during(world.kill(pod), 13)
    assert {name: (grace, time - start) for name, (grace, time) in stops(world.cri).items()} == {
        "a": (10, 0),
        "t": (2, 10),
        "s": (2, 10),
    }


async def test_a_dead_sidecar_between_two_is_skipped(world: World) -> None:
    for name in ("s", "u"):
        world.cri.script(Script(stop_after=4), container=name)
    pod = pod_of(("a",), (sidecar("s"), sidecar("t"), sidecar("u")))
    await world.settle(pod)
    world.cri.end_container(world.cri.container("ns/web/t"))
    start = world.clock.now()
    await world.during(world.kill(pod), 8)
    assert {name: time - start for name, (_, time) in stops(world.cri).items()} == {"a": 0, "u": 0, "s": 4}


async def test_hung_stop_delays_no_other_container(world: World) -> None:
    world.cri.inject(Fault("StopContainer", target="ns/web/a", hang=True))
    pod = pod_of(("a", "b", "c"))
    await world.settle(pod)
    outcome = await world.during(world.kill(pod, 5), 130)
    assert [(f.target, f.reason) for f in outcome.failures] == [("a", "KillContainerError")]
    times = stops(world.cri)
    assert times["a"][1] == times["b"][1] == times["c"][1]


async def test_a_sandbox_that_cannot_be_stopped(world: World) -> None:
    pod = pod_of()
    await world.settle(pod)
    world.cri.inject(Fault("StopPodSandbox", code=StatusCode.UNKNOWN, details="CNI failed", times=1))
    outcome = await world.kill(pod)
    assert [(f.target, f.reason, f.message) for f in outcome.failures] == [("web", "KillPodSandboxError", "CNI failed")]
    assert world.running() == []
    assert (await world.kill(pod)).ok


async def test_command_of_a_hook_goes_on_until_its_container_is_killed(world: World) -> None:
    """It may use the two seconds that a container gets after the grace period."""
    world.cri.script(Script(stop_after=None), container="app")
    world.cri.script_exec(ExecScript(duration=31.0, exit_code=1))
    pod = pod_of((hooked("app", EXEC),))
    await world.settle(pod)
    start = world.clock.now()
    await world.during(world.kill(pod), 33)
    assert stops(world.cri)["app"] == (2, start + 30)
    assert "FailedPreStopHook[app]: PreStopHook failed" in world.events.seen
    assert world.running() == []


async def test_an_orphan_is_stopped_by_its_annotations_without_its_hook(world: World) -> None:
    """The grace period was noted at the creation."""
    http: Fields = {"httpGet": {"port": "web"}}
    named: Fields = {**hooked("app", http), "ports": [{"name": "web", "containerPort": 8080}]}
    pod = pod_of((named,), terminationGracePeriodSeconds=12)
    await world.settle(pod)
    world.restart()
    (orphan,) = await world.runtime.list_pods()
    status = await world.runtime.pod_status(orphan.ref)
    assert (await world.runtime.kill_pod(orphan.ref, None, status, None)).ok
    assert stops(world.cri)["app"][0] == 12
    assert world.http.requests == []
    assert world.events.seen[-1] == "Killing[app]: Stopping container app"


async def test_a_container_that_the_spec_no_longer_names(world: World) -> None:
    await world.settle(pod_of(("app", "old"), terminationGracePeriodSeconds=9))
    pod = pod_of(("app",), terminationGracePeriodSeconds=3)
    assert (await world.kill(pod)).ok
    assert {name: grace for name, (grace, _) in stops(world.cri).items()} == {"app": 3, "old": 9}


async def test_a_container_that_is_gone_meanwhile(world: World) -> None:
    pod = pod_of()
    await world.settle(pod)
    status = await world.status(pod)
    await world.cri.client().remove_pod_sandbox(status.sandboxes[0].id)
    assert (await world.runtime.kill_pod(ref_of(pod), pod, status, None)).ok


async def test_post_start_failure_stops_the_container(world: World) -> None:
    world.cri.script_exec(ExecScript(exit_code=2, stderr=b"no such thing"))
    hook: Fields = {"postStart": {"exec": {"command": ["hello", "world"]}}}
    pod = pod_of(({"name": "a", "lifecycle": hook}, "b"), restartPolicy="Never")
    outcome = await world.sync(pod)
    (failure,) = outcome.failures
    assert failure.reason == "PostStartHookError"
    assert failure.message == (
        'Exec lifecycle hook ([hello world]) for Container "a" in Pod "web_ns(uid-1)" failed - error: '
        "command 'hello world' exited with 2: no such thing"
    )
    assert world.running() == ["b"]
    assert "FailedPostStartHook[a]: PostStartHook failed" in world.events.seen
    assert "Killing[a]: FailedPostStartHook" in world.events.seen


async def test_post_start_blocks_the_next_container(world: World) -> None:
    hook: Fields = {"postStart": {"sleep": {"seconds": 4}}}
    pod = pod_of(({"name": "a", "lifecycle": hook}, "b"))
    await world.during(world.sync(pod), 4)
    starts = {r.target: r.time for r in world.cri.log if r.method == "StartContainer"}
    assert starts["ns/web/b"] - starts["ns/web/a"] == 4


@pytest.mark.parametrize(
    "hook", [{"tcpSocket": {"port": 80}}, {"httpGet": {"port": "nowhere"}}, {"httpGet": {"port": 0}}]
)
async def test_invalid_hook_fails_the_start(world: World, hook: Fields) -> None:
    outcome = await world.sync(pod_of(({"name": "a", "lifecycle": {"postStart": hook}},)))
    assert [f.reason for f in outcome.failures] == ["PostStartHookError"]
    assert world.running() == []


async def test_an_http_hook_of_a_pod_on_the_hosts_network(world: World) -> None:
    get: Fields = {"httpGet": {"port": 80, "scheme": "HTTPS"}}
    pod = pod_of(({"name": "a", "lifecycle": {"postStart": get, "preStop": get}},), hostNetwork=True)
    await world.settle(pod)
    await world.kill(pod)
    assert [r.url for r in world.http.requests] == ["https://192.0.2.1:80/"] * 2


async def test_a_hook_never_goes_to_the_node_instead_of_the_pod(world: World) -> None:
    """The sandbox has died, so the pod has no address any more."""
    pod = pod_of((hooked("app", {"httpGet": {"port": 80}}),))
    await world.settle(pod)
    world.cri.sandboxes[0].ready = False
    assert (await world.kill(pod)).ok
    assert world.http.requests == []
    assert "FailedPreStopHook[app]: PreStopHook failed" in world.events.seen


async def test_an_https_hook_answered_without_tls_is_made_by_http(world: World) -> None:
    headers = [{"name": "Authorization", "value": "secret"}, {"name": "X", "value": "y"}]
    get: Fields = {"httpGet": {"port": 80, "scheme": "HTTPS", "httpHeaders": headers}}
    world.http.errors = [PlainHttpAnswer("no TLS")]
    assert (await world.sync(pod_of(({"name": "a", "lifecycle": {"postStart": get}},)))).ok
    ip = world.cri.sandboxes[0].ip
    assert [(r.url, dict(r.headers)) for r in world.http.requests] == [
        (f"https://{ip}:80/", {"Authorization": "secret", "X": "y"}),
        (f"http://{ip}:80/", {"X": "y"}),
    ]
    assert world.events.seen[-1] == (
        f"LifecycleHTTPFallback: request to HTTPS lifecycle hook {ip}:80 got HTTP response, retry with HTTP succeeded"
    )
    assert world.measured == ["hook fell back"]
