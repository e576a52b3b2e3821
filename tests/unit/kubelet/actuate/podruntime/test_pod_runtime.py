"""PodRuntime: starts, restarts and termination of pods."""

import pytest
from grpc import StatusCode

from pykubelet.base.errors import Transient
from pykubelet.kubelet.actuate.actuate_types import ImageError, ImageReason, VolumeError
from pykubelet.kubelet.types.ids import ContainerID, ref_of
from pykubelet.kubelet.types.outcome import Failure, PreparationResult, SyncAction
from pykubelet.kubelet.types.probes import ContainerProbes, ProbeResult
from pykubelet.testing.fake_cri import Fault, Script
from tests.unit.kubelet.actuate.podruntime.build import pod_of, sidecar
from tests.unit.kubelet.actuate.podruntime.world import World

POD = "web_ns(uid-1)"


async def test_a_new_pod_runs_after_one_sync(world: World) -> None:
    pod = pod_of(("a", "b"))
    outcome = await world.sync(pod)
    assert outcome.changed
    assert outcome.ok
    assert outcome.started == ("a", "b")
    assert world.running() == ["a", "b"]
    assert world.events.seen == [
        "Created[a]: Container created",
        "Started[a]: Container started",
        "Created[b]: Container created",
        "Started[b]: Container started",
    ]
    assert not (await world.sync(pod)).changed


async def test_a_start_takes_no_more_calls_than_needed(world: World) -> None:
    await world.sync(pod_of())
    assert sorted(r.method for r in world.cri.log[:2]) == ["ListContainers", "ListPodSandbox"]
    assert [r.method for r in world.cri.log[2:]] == [
        "RunPodSandbox",
        "PodSandboxStatus",
        "CreateContainer",
        "StartContainer",
    ]


async def test_volumes_are_prepared_while_the_sandbox_is_created(world: World) -> None:
    pod, seen = pod_of(), list[str]()

    async def rest() -> tuple[Failure, ...]:
        await world.clock.settle()
        seen.extend(r.method for r in world.cri.log)
        return ()

    world.prepare(pod)
    outcome = await world.runtime.sync_pod(pod, await world.status(pod), {}, PreparationResult(rest=rest))
    assert "RunPodSandbox" in seen
    assert "CreateContainer" not in seen
    assert outcome.started == ("app",)


async def test_failed_preparation_starts_no_container(world: World) -> None:
    pod, failure = pod_of(), Failure(SyncAction.PREPARE, "web", "FailedMount", "no token")

    async def rest() -> tuple[Failure, ...]:
        return (failure,)

    world.prepare(pod)
    outcome = await world.runtime.sync_pod(pod, await world.status(pod), {}, PreparationResult(rest=rest))
    assert (outcome.failures, outcome.started) == ((failure,), ())
    assert not world.cri.containers
    assert (await world.settle(pod)).ok  # in the sandbox that was made
    assert world.running() == ["app"]
    assert len(world.cri.sandboxes) == 1


async def test_an_idle_pod_is_only_read(world: World) -> None:
    pod = pod_of(("a", "b"))
    await world.settle(pod)
    world.cri.log.clear()
    await world.sync(pod)
    assert sorted(r.method for r in world.cri.log) == ["ListPodSandbox", "PodSandboxStatus"]


async def test_an_idle_pod_is_only_read_by_more_calls_from_a_plain_runtime(plain_world: World) -> None:
    world, pod = plain_world, pod_of(("a", "b"))
    await world.settle(pod)
    world.cri.log.clear()
    await world.sync(pod)
    assert sorted(r.method for r in world.cri.log) == [
        "ContainerStatus",
        "ContainerStatus",
        "ListContainers",
        "ListPodSandbox",
        "PodSandboxStatus",
    ]


async def test_the_timeline_has_every_step(world: World) -> None:
    await world.sync(pod_of(({"name": "a", "lifecycle": {"postStart": {"exec": {"command": ["true"]}}}},)))
    assert world.steps.seen == [
        "+sandbox",
        "-sandbox",
        "+create a",
        "-create a",
        "+start a",
        "-start a",
        "+postStart a",
        "-postStart a",
    ]


async def test_init_containers_run_one_by_one(world: World) -> None:
    world.cri.script(Script(exit_after=1), container="i")
    world.cri.script(Script(exit_after=1), container="j")
    pod = pod_of(("a",), ("i", "j"))
    order: list[str] = []
    for _ in range(3):
        outcome = await world.sync(pod)
        order += outcome.started
        assert not (await world.sync(pod)).changed or outcome.started == ("a",)
        await world.clock.advance(1)
    assert order == ["i", "j", "a"]
    assert [s for s in world.steps.seen if "init" in s] == ["+init i", "-init i", "+init j", "-init j"]


async def test_sidecars_start_before_and_stay(world: World) -> None:
    world.cri.script(Script(exit_after=1), container="i")
    pod = pod_of(("a",), (sidecar("s"), "i"))
    await world.settle(pod)
    await world.clock.advance(1)
    await world.settle(pod)
    assert world.running() == ["s", "a"]
    world.cri.end_container(world.cri.container("ns/web/s"), 1)
    await world.settle(pod)
    assert sorted(world.running()) == ["a", "s"]
    assert (await world.status(pod)).containers[0].restart_count == 1


async def test_a_failing_init_container_of_a_run_once_pod_ends_it(world: World) -> None:
    world.cri.script(Script(exit_after=0, exit_code=3), container="i")
    pod = pod_of(("a",), ("i",), restartPolicy="Never")
    await world.settle(pod)
    assert world.running() == []
    assert [c.config.metadata.name for c in world.cri.containers if c.started_at] == ["i"]
    assert not world.cri.sandboxes[0].ready


async def test_crash_loop_backs_off_from_ten_seconds_to_five_minutes(world: World) -> None:
    """At once, then 10, 20, 40 … seconds, up to five minutes."""
    world.cri.script(Script(exit_after=1, exit_code=1))
    pod = pod_of()
    waits = []
    await world.sync(pod)
    for _ in range(8):
        await world.clock.advance(1)
        ended = world.clock.monotonic()
        outcome = await world.sync(pod)
        if outcome.changed:
            waits.append(0.0)
            continue
        (failure,) = outcome.failures
        assert (failure.reason, failure.transient) == ("CrashLoopBackOff", True)
        assert failure.target == "app"
        assert outcome.wake_at is not None
        waits.append(outcome.wake_at - ended)
        await world.clock.advance(outcome.wake_at - ended - 0.001)
        assert not (await world.sync(pod)).changed
        await world.clock.advance(0.002)
        assert (await world.sync(pod)).started == ("app",)
    assert [round(w) for w in waits] == [0, 10, 20, 40, 80, 160, 300, 300]
    message = f"back-off 5m0s restarting failed container=app pod={POD}"
    await world.clock.advance(1)
    outcome = await world.sync(pod)
    assert [f.message for f in outcome.failures] == [message]
    assert world.events.seen[-1] == f"BackOff[app]: Back-off restarting failed container app in pod {POD}"
    assert (await world.status(pod)).containers[0].restart_count == 8


async def test_the_back_off_ends_with_the_pod(world: World) -> None:
    world.cri.script(Script(exit_after=1, exit_code=1))
    pod = pod_of()
    for _ in range(3):
        await world.sync(pod)
        await world.clock.advance(60)
    await world.runtime.kill_pod(ref_of(pod), pod, await world.status(pod), None)
    await world.runtime.remove_pod(ref_of(pod))
    await world.sync(pod)
    await world.clock.advance(1)
    assert (await world.sync(pod)).started == ("app",), "the first restart has no delay"


async def test_the_back_off_survives_the_agent(world: World) -> None:
    world.cri.script(Script(exit_after=1, exit_code=1))
    pod = pod_of()
    await world.sync(pod)
    for _ in range(3):
        await world.clock.advance(1)
        outcome = await world.sync(pod)
        if outcome.wake_at is not None:
            await world.clock.advance(outcome.wake_at - world.clock.monotonic() + 0.001)
            await world.sync(pod)
    await world.clock.advance(1)
    before = await world.sync(pod)
    world.restart()
    after = await world.sync(pod)
    assert after.failures == before.failures
    assert after.wake_at == before.wake_at
    assert "back-off 40s" in after.failures[0].message


async def test_one_container_that_fails_does_not_stop_the_others(world: World) -> None:
    world.images.errors["a"] = ImageError(
        ImageReason.IMAGE_PULL_BACK_OFF,
        'Back-off pulling image "x"',
        transient=True,
        retry_at=world.clock.monotonic() + 7,
    )
    outcome = await world.sync(pod_of(("a", "b")))
    assert world.running() == ["b"]
    (failure,) = outcome.failures
    assert (failure.action, failure.target, failure.reason) == (SyncAction.START_CONTAINER, "a", "ImagePullBackOff")
    assert failure.message == 'Back-off pulling image "x"'
    assert failure.transient
    assert outcome.wake_at == world.clock.monotonic() + 7
    assert "Failed[a]: Error: ImagePullBackOff" in world.events.seen


async def test_pulls_run_side_by_side_but_starts_keep_their_order(world: World) -> None:
    world.images.delays = {"a": 5, "b": 5, "c": 1}
    outcome = await world.during(world.sync(pod_of(("a", "b", "c"))), 5)
    assert outcome.started == ("a", "b", "c")
    assert world.running() == ["a", "b", "c"]


async def test_image_lookup_error_is_reported_by_the_container(world: World) -> None:
    world.images.errors["app"] = Transient("no answer")
    (failure,) = (await world.sync(pod_of())).failures
    assert (failure.reason, failure.message) == ("ImageInspectError", "no answer")


@pytest.mark.parametrize(
    ("env", "reason", "message"),
    [
        (
            {"name": "X", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
            "CreateContainerConfigError",
            'configmap "c" not found',
        ),
        (
            {"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            "CreateContainerConfigError",
            'secret "s" not found',
        ),
    ],
)
async def test_invalid_container_config_is_reported(
    world: World, env: dict[str, object], reason: str, message: str
) -> None:
    (failure,) = (await world.sync(pod_of(({"name": "app", "env": [env]},)))).failures
    assert (failure.reason, failure.message) == (reason, message)
    assert world.events.seen[-1] == f"Failed[app]: Error: {message}"
    assert world.cri.containers == []


async def test_missing_volume_fails_the_start(world: World) -> None:
    world.volumes.error = VolumeError("data", 'volume "data" is not mounted')
    (failure,) = (await world.sync(pod_of())).failures
    assert (failure.reason, failure.message) == ("CreateContainerConfigError", 'volume "data" is not mounted')


async def test_unavailable_image_volume_fails_the_start(world: World) -> None:
    world.volumes.error = ImageError(ImageReason.ERR_IMAGE_PULL, "no such image")
    (failure,) = (await world.sync(pod_of())).failures
    assert (failure.reason, failure.message) == ("ErrImagePull", "no such image")


async def test_create_error_is_reported(world: World) -> None:
    world.cri.script(Script(fail_create=(StatusCode.UNKNOWN, "disk full")))
    (failure,) = (await world.sync(pod_of())).failures
    assert (failure.reason, failure.message) == ("CreateContainerError", "disk full")
    assert "Failed[app]: Error: disk full" in world.events.seen


async def test_start_error_is_reported(world: World) -> None:
    world.cri.script(Script(fail_start="exec: no such file"), Script())
    pod = pod_of()
    outcome = await world.sync(pod)
    (failure,) = outcome.failures
    assert (failure.reason, failure.message) == ("RunContainerError", "exec: no such file")
    await world.settle(pod)
    status = await world.status(pod)
    assert [(c.restart_count, c.state.value) for c in status.containers] == [(1, "running"), (0, "exited")]


async def test_ids_are_kept_out_of_events(world: World) -> None:
    pod = pod_of()
    await world.sync(pod)
    container = world.cri.containers[0]
    world.cri.end_container(container, 1)
    fault = Fault("StartContainer", code=StatusCode.UNKNOWN, details="cannot start it")
    world.cri.inject(fault)
    await world.sync(pod)
    fault.details = f"container {world.cri.containers[-1].id} is odd"
    assert "cannot start it" in world.events.seen[-1]


async def test_a_failing_liveness_probe_restarts_the_container(world: World) -> None:
    pod = pod_of(({"name": "app", "livenessProbe": {"httpGet": {"port": 80}, "terminationGracePeriodSeconds": 5}},))
    await world.settle(pod)
    first = world.cri.containers[0]
    dead = {ContainerID(first.id): ContainerProbes(liveness=ProbeResult.FAILURE)}
    await world.sync(pod, dead)
    assert [c.running for c in world.cri.containers] == [False, True]
    assert "Killing[app]: Container app failed liveness probe, will be restarted" in world.events.seen
    stop = next(r for r in world.cri.log if r.method == "StopContainer")
    assert getattr(stop.request, "timeout", None) == 5
    assert (await world.status(pod)).containers[0].restart_count == 1


async def test_a_kill_that_fails_keeps_its_container_from_being_started(world: World) -> None:
    pod = pod_of(("a", "b"))
    await world.settle(pod)
    first = world.cri.containers[0]
    world.cri.end_container(world.cri.containers[1], 1)
    fault = world.cri.inject(Fault("StopContainer", code=StatusCode.UNKNOWN, details="stuck"))
    dead = {ContainerID(first.id): ContainerProbes(liveness=ProbeResult.FAILURE)}
    outcome = await world.sync(pod, dead)
    assert [(f.action, f.target, f.reason) for f in outcome.failures] == [
        (SyncAction.KILL_CONTAINER, "a", "KillContainerError")
    ]
    assert sorted(world.running()) == ["a", "b"]
    world.cri.remove_fault(fault)
    await world.sync(pod, dead)
    assert sorted(world.running()) == ["a", "b"]
    assert not first.running


async def test_a_changed_image_replaces_the_container(world: World) -> None:
    await world.settle(pod_of())
    changed = pod_of(({"name": "app", "image": "app:2"},), restartPolicy="Never")
    await world.settle(changed)
    assert [(c.config.image.image, c.running) for c in world.cri.containers] == [("app:1", False), ("app:2", True)]


async def test_a_dead_sandbox_is_replaced(world: World) -> None:
    world.cri.script(Script(exit_after=0), container="i")
    pod = pod_of(("a",), ("i",))
    await world.settle(pod)
    world.cri.end_sandbox(world.cri.sandboxes[0])
    await world.settle(pod)
    assert [s.ready for s in world.cri.sandboxes] == [False, True]
    assert world.cri.sandboxes[1].config.metadata.attempt == 1
    assert world.running() == ["a"]
    assert "SandboxChanged: Pod sandbox changed, it will be killed and re-created." in world.events.seen
    counts = {c.name: c.restart_count for c in reversed((await world.status(pod)).containers)}
    assert counts == {"a": 1, "i": 1}


async def test_a_run_once_pod_ends(world: World) -> None:
    world.cri.script(Script(exit_after=1, exit_code=0))
    pod = pod_of(restartPolicy="Never")
    await world.settle(pod)
    await world.clock.advance(1)
    await world.settle(pod)
    assert [s.ready for s in world.cri.sandboxes] == [False]
    assert len(world.cri.containers) == 1


async def test_ephemeral_containers_see_their_target(world: World) -> None:
    pod = pod_of(("app",), (), ({"name": "debug", "targetContainerName": "app"},))
    await world.settle(pod)
    assert world.running() == ["app", "debug"]
    options = world.cri.container("ns/web/debug").config.linux.security_context.namespace_options
    assert options.target_id == world.cri.container("ns/web/app").id


async def test_an_ephemeral_container_without_its_target(world: World) -> None:
    pod = pod_of(("app",), (), ({"name": "debug", "targetContainerName": "unknown"},))
    await world.sync(pod)
    outcome = await world.sync(pod)
    assert [f.message for f in outcome.failures] == ["unable to find target container unknown"]


async def test_rule_restarts_all_containers_and_init_containers(world: World) -> None:
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [9]}}
    world.cri.script(Script(exit_after=0), container="i")
    world.cri.script(Script(exit_after=5, exit_code=9), container="a")
    pod = pod_of(({"name": "a", "restartPolicy": "Never", "restartPolicyRules": [rule]}, "b"), ("i",))
    await world.settle(pod)
    old = {c.id for c in world.cri.containers}
    await world.clock.advance(5)
    await world.settle(pod)
    assert old.isdisjoint(c.id for c in world.cri.containers)
    assert sorted(world.running()) == ["a", "b"]
    assert [s.ready for s in world.cri.sandboxes] == [True]
    assert {c.name: c.restart_count for c in (await world.status(pod)).containers} == {"i": 1, "a": 1, "b": 1}
    await world.clock.advance(5)
    await world.settle(pod)  # without back-off, as upstream
    assert {c.name: c.restart_count for c in (await world.status(pod)).containers} == {"i": 2, "a": 2, "b": 2}


async def test_old_attempts_of_init_containers_are_pruned(world: World) -> None:
    world.cri.script(Script(exit_after=0, exit_code=1), container="i")
    pod = pod_of(("a",), ("i",))
    for _ in range(4):
        await world.settle(pod)
        await world.clock.advance(301)
    left = [c.config.metadata.attempt for c in world.cri.containers if c.config.metadata.name == "i"]
    assert len(left) <= 2
    logs = sorted(p.name for p in (world.runtime_logs(pod) / "i").iterdir())
    assert logs == [f"{n}.log" for n in left]


async def test_pod_of_an_unknown_runtime_class(world: World) -> None:
    outcome = await world.sync(pod_of(runtimeClassName="fancy"))
    assert [f.reason for f in outcome.failures] == ["CreatePodSandboxError"]
    assert 'RuntimeClass "fancy" not found' in outcome.failures[0].message
    world.node.handlers["fancy"] = "runc"
    await world.settle(pod_of(runtimeClassName="fancy"))
    assert world.cri.sandboxes[0].handler == "runc"


async def test_list_pods_and_remove(world: World) -> None:
    pod = pod_of(("a", "b"))
    await world.settle(pod)
    (listed,) = await world.runtime.list_pods()
    assert listed.ref == ref_of(pod)
    assert {c.name for c in listed.containers} == {"a", "b"}
    await world.kill(pod)
    await world.runtime.remove_pod(ref_of(pod))
    assert await world.runtime.list_pods() == []
    assert world.cri.containers == []
    assert world.cri.sandboxes == []
    await world.runtime.remove_pod(ref_of(pod))


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
async def test_sandbox_replaced_after_the_wall_clock_jumped_is_replaced_once(world: World, jump: float) -> None:
    pod = pod_of()
    await world.settle(pod)
    world.cri.end_sandbox(world.cri.sandboxes[0])
    world.clock.jump_wall(jump)
    assert (await world.settle(pod)).ok
    for _ in range(3):
        assert not (await world.sync(pod)).changed
    assert [s.ready for s in world.cri.sandboxes] == [False, True]
    status = await world.status(pod)
    assert [s.attempt for s in status.sandboxes] == [1, 0]
    assert [c.restart_count for c in status.containers] == [1, 0]


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
async def test_crash_loop_while_the_wall_clock_jumps_waits_as_long_as_without(world: World, jump: float) -> None:
    world.cri.script(Script(exit_after=1, exit_code=1))
    pod = pod_of()
    waits = []
    await world.sync(pod)
    for _ in range(6):
        await world.clock.advance(1)
        ended = world.clock.monotonic()
        outcome = await world.sync(pod)
        if outcome.changed:
            waits.append(0.0)
            continue
        world.clock.jump_wall(jump)
        assert (await world.sync(pod)).wake_at == outcome.wake_at
        assert outcome.wake_at is not None
        waits.append(outcome.wake_at - ended)
        await world.clock.advance(outcome.wake_at - ended - 0.001)
        assert not (await world.sync(pod)).changed
        await world.clock.advance(0.002)
        assert (await world.sync(pod)).started == ("app",)
        world.clock.jump_wall(-jump)
    assert [round(w) for w in waits] == [0, 10, 20, 40, 80, 160]


async def test_dead_containers_after_the_wall_clock_was_set_back_are_collected(world: World) -> None:
    world.cri.script(Script(exit_after=1, exit_code=1))
    pod = pod_of()
    await world.sync(pod)
    for _ in range(2):
        await world.clock.advance(1)
        outcome = await world.sync(pod)
        if outcome.wake_at is not None:
            await world.clock.advance(outcome.wake_at - world.clock.monotonic())
            await world.sync(pod)
    await world.clock.advance(1)
    world.clock.jump_wall(-3600.0)
    await world.runtime.gc(lambda: frozenset({ref_of(pod).uid}))
    status = await world.status(pod)
    assert [c.restart_count for c in status.containers] == [2]
