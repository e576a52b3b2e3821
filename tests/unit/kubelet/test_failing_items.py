"""Every loop of the agent outlives an item of it that raises something that no one foresaw.

The parts are made with the least that their loops need; the step that handles an item is replaced by one that raises.
What the parts do otherwise is tested beside each of them.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pykubelet.apiclient.certificates.certificate_manager import CertificateManager
from pykubelet.apiclient.reflector import Query, Reflector
from pykubelet.base.concurrency.callbacks import Callbacks
from pykubelet.base.concurrency.guard import item_failures
from pykubelet.base.units import Bytes
from pykubelet.kubelet.actuate.cgroups.qos_levels import QosLevels
from pykubelet.kubelet.actuate.cri.events import RuntimeEvents
from pykubelet.kubelet.actuate.host.addresses import NodeAddresses
from pykubelet.kubelet.actuate.images.image_gc import ImageGc
from pykubelet.kubelet.actuate.images.plan.image_gc import ImageGcPolicy, ImageRecord
from pykubelet.kubelet.actuate.volumes.csi.csi_manager import CsiVolumes
from pykubelet.kubelet.actuate.volumes.csi.csi_types import CsiEvents
from pykubelet.kubelet.actuate.volumes.csi.driver_registry import DriverRegistry
from pykubelet.kubelet.control.sync import SyncLoop
from pykubelet.kubelet.control.sync.events import PeriodicRetry, PodsAffected
from pykubelet.kubelet.control.workers.timers import WakeTimers
from pykubelet.kubelet.desired.objects import tokens
from pykubelet.kubelet.desired.objects.api_objects import ApiObjects
from pykubelet.kubelet.desired.objects.pod_certificates import PodCertificates
from pykubelet.kubelet.desired.objects.tokens import ServiceAccountTokens, _TokenKey
from pykubelet.kubelet.desired.pods.mirror_pods import MirrorPods
from pykubelet.kubelet.desired.sources.file_source import FileSource
from pykubelet.kubelet.desired.sources.source_types import FileSourceConfig
from pykubelet.kubelet.desired.sources.url_source import UrlSource
from pykubelet.kubelet.observe.eviction import eviction_manager as pressure
from pykubelet.kubelet.observe.eviction.eviction_manager import EvictionManager
from pykubelet.kubelet.observe.pleg.plan.schedule import ScheduledCheck
from pykubelet.kubelet.observe.pleg.pleg import Pleg
from pykubelet.kubelet.observe.runtime_health import RuntimeHealth
from pykubelet.kubelet.report.events.event_sink import EventSink
from pykubelet.kubelet.report.node.csi_node import CsiNodeReporter
from pykubelet.kubelet.report.node.lease import LeaseRenewer
from pykubelet.kubelet.report.node.node_reporter import NodeReporter
from pykubelet.kubelet.report.status.status_patcher import StatusPatcher, _Delivery
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.resources.cgroup_names import NameStyle
from pykubelet.kubelet.types.runtime import PodEventType, PodLifecycleEvent
from pykubelet.kubelet.types.updates import PodOp, PodUpdate, Source
from pykubelet.models.core_v1 import PodStatus
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.telemetry import telemetry
from pykubelet.testing.wait import settle
from tests.unit.kubelet.control.fakes import make_pod
from tests.unit.kubelet.control.sync.fakes import LoopFakes
from tests.unit.kubelet.observe.pleg.fakes import container, pod

A, B = PodUID("a"), PodUID("b")
Some = Any  # what is not looked at in these tests
Make = Callable[[VirtualClock, Path], Some]


@asynccontextmanager
async def running(work: Coroutine[None, None, None]) -> AsyncIterator["asyncio.Task[None]"]:
    """The loop runs within the block, and has not ended by itself at its end."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        yield task
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        await asyncio.wait([task])


def ns(**fields: Some) -> Some:
    return SimpleNamespace(**fields)


async def nothing(*_: Some) -> Some:
    return None


def _registered() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


def _mirrors(clock: VirtualClock, _: Path) -> MirrorPods:
    made = MirrorPods(ns(clock=clock, first_listed=Callbacks()))
    made.poke()
    return made


def _resources(clock: VirtualClock, _: Path) -> QosLevels:
    made = QosLevels(cgroups=ns(), config=ns(cgroup_root="/", per_qos=True, style=NameStyle.CGROUPFS), clock=clock)
    made._dirty.set()
    return made


_ROUNDS: dict[str, tuple[Make, str, str]] = {
    "pressure.rounds": (
        lambda c, p: EvictionManager(ns(telemetry=telemetry(c, None), alarm=ns(close=lambda: None)), ns()),
        "run",
        "check",
    ),
    "image-gc.rounds": (
        lambda c, p: ImageGc(ns(telemetry=telemetry(c, None)), ImageGcPolicy()),
        "run",
        "collect",
    ),
    "runtime-health": (lambda c, p: RuntimeHealth(ns(telemetry=telemetry(c, None))), "run", "check"),
    "mirrors.rounds": (_mirrors, "run", "reconcile"),
    "node.status": (
        lambda c, p: NodeReporter(ns(telemetry=telemetry(c, None), changes=()), ns(name="n", update_every=0.01)),
        "run",
        "report",
    ),
    "node.addresses": (
        lambda c, p: NodeAddresses(
            ns(node_name="n", given_ips=(), node_ips=()), changed=lambda _: None, clock=c, machine=ns()
        ),
        "run",
        "read",
    ),
    "node.csi": (
        lambda c, p: CsiNodeReporter(
            client=ns(),
            node=lambda: None,
            registered=_registered(),
            replaced=Callbacks(),
            state=ns(failed=lambda _: None),
            installed=Callbacks(),
            removed=Callbacks(),
            clock=c,
        ),
        "run",
        "report",
    ),
    "node.lease": (lambda c, p: LeaseRenewer(client=ns(), node="n", duration=40, clock=c), "run", "renew"),
    "cgroups.levels": (_resources, "run", "_write_levels"),
    "certificates": (
        lambda c, p: CertificateManager(client=ns(), store=ns(), template=lambda: None, clock=c),
        "run",
        "_renew_if_due",
    ),
    "watches": (
        lambda c, p: Reflector(client=ns(), query=Query(ns(label="pods"), ns()), deliver=lambda _: None, clock=c),
        "run",
        "_list_and_watch",
    ),
    "csi.sweep": (
        lambda c, p: CsiVolumes(
            ns(
                telemetry=telemetry(c, None),
                blocking=ns(deadline=1.0),
                layout=None,
                objects=None,
                node="n",
                events=CsiEvents(),
            )
        ),
        "run",
        "_sweep_once",
    ),
    "csi.directory": (
        lambda c, p: DriverRegistry(directory=p, clock=c, timeout=1.0, events=CsiEvents()),
        "run",
        "_scan",
    ),
    "sources.files": (
        lambda c, p: FileSource(config=FileSourceConfig(p, "node"), deliver=lambda _: None, clock=c),
        "_read",
        "rescan",
    ),
    "sources.http": (
        lambda c, p: UrlSource(
            config=ns(backup=None, url="http://x/", period=10.0),
            deliver=lambda _: None,
            clock=c,
            fetch=ns(close=nothing),
        ),
        "run",
        "poll",
    ),
}


@pytest.mark.parametrize("guard", sorted(_ROUNDS))
async def test_round_that_raises_is_followed_by_others(
    guard: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    make, run, step = _ROUNDS[guard]
    clock, tried = VirtualClock(), 0

    async def fail(*_: Some) -> Some:
        nonlocal tried
        tried += 1
        raise ValueError("no error that anyone foresaw")

    def fail_in_thread(*_: Some) -> Some:
        nonlocal tried
        tried += 1
        raise ValueError("no error that anyone foresaw")

    part = make(clock, tmp_path)
    monkeypatch.setattr(type(part), step, fail_in_thread if step == "_write_levels" else fail)
    before = item_failures().get(guard, 0)
    async with running(getattr(part, run)()):
        async with asyncio.timeout(20):
            while tried < 3:
                await clock.advance(100)
        assert item_failures()[guard] >= before + 2
    ours = [r for r in caplog.records if getattr(r, "loop", "") == guard]
    assert len([r for r in ours if r.levelname == "ERROR"]) == 1, "told once"


async def test_watch_of_manifests_that_raises_is_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, tried = VirtualClock(), 0

    async def fail(*_: Some) -> None:
        nonlocal tried
        tried += 1
        raise ValueError("no error that anyone foresaw")

    monkeypatch.setattr("pykubelet.kubelet.desired.sources.file_source.watch", fail)
    source = FileSource(config=FileSourceConfig(tmp_path, "node"), deliver=lambda _: None, clock=clock)
    async with running(source._follow()):
        await clock.advance(100)
        assert tried > 2


async def test_timer_of_a_pod_that_raises_keeps_no_other_from_waking() -> None:
    clock, woken = VirtualClock(), []

    def wake(uid: PodUID) -> None:
        if uid == A:
            raise ValueError("no error that anyone foresaw")
        woken.append(uid)

    timers = WakeTimers(clock, wake)
    timers.set(A, clock.monotonic() + 1)
    timers.set(B, clock.monotonic() + 2)
    async with running(timers.run()):
        await clock.advance(5)
        assert woken == [B]


async def test_pod_that_raises_keeps_no_other_from_the_sync_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is retried later, unless something newer has come of it."""
    fakes, broken = LoopFakes(), {"a"}
    update = fakes.update

    def fail(pod: Some) -> None:
        if pod.metadata.uid in broken:
            raise ValueError("no error that anyone foresaw")
        update(pod)

    monkeypatch.setattr(fakes, "update", fail)
    loop = SyncLoop(fakes.deps(), fakes.queue)
    loop.handle(PodUpdate(PodOp.ADD, Source.FILE, (make_pod("a", "a"), make_pod("b", "b"))))
    assert [call for call in fakes.calls if call.startswith("update")] == ["update b"]
    broken.clear()
    await fakes.clock.advance(10)
    loop.handle(PeriodicRetry())
    assert [call for call in fakes.calls if call.startswith("update")] == ["update b", "update a"]


async def test_failed_update_is_not_retried_after_a_newer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes = LoopFakes()

    def fail(pod: Some) -> None:
        raise ValueError("no error that anyone foresaw")

    with monkeypatch.context() as patch:
        patch.setattr(fakes, "update", fail)
        loop = SyncLoop(fakes.deps(), fakes.queue)
        loop.handle(PodUpdate(PodOp.ADD, Source.FILE, (make_pod("a"),)))
    loop.handle(PodUpdate(PodOp.REMOVE, Source.FILE, (make_pod("a"),)))
    fakes.calls.clear()
    await fakes.clock.advance(10)
    loop.handle(PeriodicRetry())
    assert not [call for call in fakes.calls if call.startswith("update")]


async def test_event_that_raises_keeps_no_other_from_the_sync_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes, poke = LoopFakes(), LoopFakes.poke

    def fail(self: LoopFakes, uid: PodUID) -> None:
        if uid == A:
            raise ValueError("no error that anyone foresaw")
        poke(self, uid)

    monkeypatch.setattr(LoopFakes, "poke", fail)
    loop = SyncLoop(fakes.deps(), fakes.queue)
    async with running(loop.run()):
        fakes.queue.post(PodsAffected(frozenset({A})))
        fakes.queue.post(PodsAffected(frozenset({B})))
        await fakes.clock.settle()
        assert fakes.calls == ["poke b"]


def _pleg(clock: VirtualClock, reported: Callable[[PodLifecycleEvent], None]) -> Pleg:
    meter = ns(**{name: lambda *_: None for name in ("relist_interval", "relist_duration", "last_seen", "running")})

    async def listed() -> Some:
        return [pod(A, container("1")), pod(B, container("2"))]

    return Pleg(ns(telemetry=telemetry(clock, meter), list_pods=listed, on_event=reported))


async def test_pod_that_raises_keeps_pleg_from_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[PodLifecycleEvent] = []
    pleg = _pleg(VirtualClock(), reported.append)
    original = Pleg._accept

    def fail(self: Pleg, uid: PodUID, seen: Some) -> None:
        if uid == A:
            raise ValueError("no error that anyone foresaw")
        original(self, uid, seen)

    monkeypatch.setattr(Pleg, "_accept", fail)
    await pleg._relist()
    assert {event.uid for event in reported} == {B}
    assert pleg.healthy() is None


async def test_look_at_a_pod_that_raises_keeps_pleg_from_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, looked = VirtualClock(), []
    pleg = _pleg(clock, lambda _: None)
    pleg._relist_at = clock.monotonic() + 1000
    pleg._checks = {uid: ScheduledCheck(clock.monotonic(), clock.monotonic()) for uid in (A, B)}

    async def look(self: Pleg, uid: PodUID) -> None:
        looked.append(uid)
        if uid == A:
            raise ValueError("no error that anyone foresaw")
        del self._checks[uid]

    monkeypatch.setattr(Pleg, "_check_pod", look)
    async with running(pleg._relist_forever()):
        await clock.advance(5)
        assert looked == [A, B]


async def test_listener_that_raises_keeps_pleg_from_no_other_event() -> None:
    reported: list[PodLifecycleEvent] = []

    def tell(event: PodLifecycleEvent) -> None:
        if event.uid == A:
            raise ValueError("no error that anyone foresaw")
        reported.append(event)

    await _pleg(VirtualClock(), tell)._relist()
    assert {event.uid for event in reported} == {B}
    assert all(event.type is PodEventType.CONTAINER_STARTED for event in reported)


async def test_pod_whose_use_raises_keeps_no_other_from_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    pods, ended = [make_pod("a"), make_pod("b")], []

    async def usage(**_: Some) -> Some:
        return ns(pods=[ns(pod_ref=ns(uid=each)) for each in "ab"])

    def use(stats: Some) -> Some:
        if stats.pod_ref.uid == A:
            raise ValueError("no error that anyone foresaw")
        return ns()

    part = EvictionManager(
        ns(
            telemetry=telemetry(VirtualClock(), None),
            usage=usage,
            workers=ns(evictable=lambda grace: pods),
            observer=ns(disks=lambda: None),
        ),
        ns(),
    )
    monkeypatch.setattr(pressure, "pod_use", use)
    monkeypatch.setattr(pressure, "has_limits", lambda _: True)
    monkeypatch.setattr(pressure, "is_critical", lambda _: False)
    monkeypatch.setattr(pressure, "exceeded", lambda *_: ns())

    def evict(each: Some, _: Some) -> PodUID:
        ended.append(each.metadata.uid)
        return PodUID(each.metadata.uid)

    monkeypatch.setattr(part, "_evict", evict)
    assert await part._enforce_limits() == [B]
    assert ended == [B]


async def test_image_that_raises_keeps_no_other_from_being_removed() -> None:
    removed: list[str] = []

    async def remove(spec: Some) -> None:
        if spec.image == "a":
            raise ValueError("no error that anyone foresaw")
        removed.append(spec.image)

    recorders = telemetry(VirtualClock(), ns(image_collected=lambda _: None))
    part = ImageGc(ns(telemetry=recorders, images=ns(remove_image=remove)), ImageGcPolicy())
    records = [ImageRecord(name, Bytes(10), False, 0.0) for name in ("a", "b")]
    assert await part._remove(records, "age") == 10
    assert removed == ["b"]


def _patcher(clock: VirtualClock) -> StatusPatcher:
    entry = ns(status=PodStatus(), published=PodStatus(), finished=False, pod=make_pod("a"))
    return StatusPatcher(
        ns(
            telemetry=telemetry(clock, None),
            statuses=ns(entry=lambda _: entry, subscribe=lambda _: None),
            pods=ns(counterpart=lambda uid: make_pod(uid)),
        )
    )


async def _status(monkeypatch: pytest.MonkeyPatch, clock: VirtualClock) -> list[str]:
    reported: list[str] = []
    patcher = _patcher(clock)

    async def step(self: StatusPatcher, entry: Some, pod: Some, delivery: Some) -> bool:
        reported.append(pod.metadata.uid)
        if pod.metadata.uid == A and reported.count(A) < 3:
            raise ValueError("no error that anyone foresaw")
        return False

    monkeypatch.setattr(StatusPatcher, "_step", step)
    monkeypatch.setattr(StatusPatcher, "_held", lambda *_: 0.0)
    monkeypatch.setattr(StatusPatcher, "_flush", nothing)
    async with running(patcher.run()):
        await clock.settle()
        patcher.seen(A)
        patcher.seen(B)
        await clock.advance(30)
    return reported


async def test_status_that_raises_is_retried_and_keeps_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    reported = await _status(monkeypatch, VirtualClock())
    assert reported.count(B) == 1
    assert reported.count(A) == 3


async def test_status_that_raises_at_the_end_keeps_no_other_from_being_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[PodUID] = []

    async def send(self: StatusPatcher, entry: Some, pod: Some, delivery: Some, update: Some) -> None:
        await asyncio.sleep(0 if pod.metadata.uid == A else 0.01)
        if pod.metadata.uid == A:
            raise ValueError("no error that anyone foresaw")
        sent.append(pod.metadata.uid)

    monkeypatch.setattr(StatusPatcher, "_send", send)
    patcher = _patcher(VirtualClock())
    patcher._deliveries = {uid: _Delivery(wakeup=ns()) for uid in (A, B)}
    await patcher._flush()
    assert sent == [B]


async def test_event_that_raises_keeps_no_other_from_the_api_server(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []

    async def deliver(self: EventSink, change: Some) -> None:
        if change.key == "a":
            raise ValueError("no error that anyone foresaw")
        sent.append(change.key)

    class News:
        def __enter__(self) -> "News":
            return self

        def __exit__(self, *_: object) -> None: ...

        async def wait(self) -> None:
            await asyncio.Event().wait()

        def drain(self) -> list[Some]:
            return []

    table = ns(subscribe=News, limit=10, changes=lambda: [ns(key=key, deleted=False) for key in "ab"])
    monkeypatch.setattr(EventSink, "_deliver", deliver)
    clock = VirtualClock()
    async with running(EventSink(client=ns(), table=table, limit=ns(), clock=clock).run()):
        await clock.settle()
        assert sent == ["b"]


async def test_mirror_that_raises_keeps_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    async def create(pod: Some) -> None:
        if pod.metadata.uid == A:
            raise ValueError("no error that anyone foresaw")
        made.append(pod.metadata.uid)

    part = MirrorPods(ns(clock=VirtualClock(), first_listed=Callbacks()))
    for each in (make_pod("a", "a"), make_pod("b", "b")):
        await part._attempt(each, create)
    assert made == [B]
    assert len(part._not_before) == 1, "it is tried again later"


async def test_token_that_raises_keeps_no_other_from_being_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, renewed = VirtualClock(), set()
    part = ServiceAccountTokens(client=ns(), clock=clock, renewed=lambda _: None)
    tokens: Some = {name: ns(renew_at=0.0) for name in "ab"}
    part._tokens = tokens

    async def renew(self: ServiceAccountTokens, wanted: Some) -> None:
        if wanted == "a":
            raise ValueError("no error that anyone foresaw")
        renewed.add(wanted)

    monkeypatch.setattr(ServiceAccountTokens, "_renew", renew)
    async with running(part.run()):
        await clock.advance(200)
        assert renewed == {"b"}


async def test_early_token_that_raises_does_not_end_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    part = ServiceAccountTokens(client=ns(), clock=VirtualClock(), renewed=lambda _: None)

    async def ask(self: ServiceAccountTokens, wanted: Some) -> None:
        raise ValueError("no error that anyone foresaw")

    monkeypatch.setattr(ServiceAccountTokens, "_ask", ask)
    monkeypatch.setattr(tokens, "_wanted_by", lambda pod: [_TokenKey(ref_of(make_pod("a")), "robot", "", 600)])
    before = item_failures()["tokens"]
    async with running(part.run()) as task:
        await settle()
        part.expect(ns())
        await settle()
        assert not task.done()
        assert not part._early
    assert item_failures()["tokens"] == before + 1


async def test_certificate_of_a_pod_that_raises_keeps_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, asked = VirtualClock(), set()
    part = PodCertificates(client=ns(), touched=lambda _: None, clock=clock, patience=1.0)
    part._wanted.set()
    entries: Some = {place: ns(current=ns(refresh_at=0.0), request="", refusal="") for place in "ab"}
    part._entries = entries

    async def ask(self: PodCertificates, place: Some, entry: Some) -> None:
        if place == "a":
            raise ValueError("no error that anyone foresaw")
        asked.add(place)

    monkeypatch.setattr(PodCertificates, "_ask", ask)
    async with running(part._renew()):
        await clock.advance(200)
        assert asked == {"b"}


async def test_object_that_raises_keeps_no_other_from_being_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, dropped = VirtualClock(), set()
    part = ApiObjects(client=ns(), local=ns(), clock=clock)
    idle: Some = dict.fromkeys("ab", 0.0)
    part._idle = idle

    def drop(self: ApiObjects, key: Some) -> None:
        if key == "a":
            raise ValueError("no error that anyone foresaw")
        dropped.add(key)

    monkeypatch.setattr(ApiObjects, "_drop", drop)
    async with running(part.run()):
        await clock.advance(1000)
        assert dropped == {"b"}


async def test_runtime_event_that_raises_keeps_no_other() -> None:
    reported: list[str] = []

    async def events() -> AsyncIterator[pb.ContainerEventResponse]:
        for name in "ab":
            yield pb.ContainerEventResponse(container_id=name, container_event_type=pb.CONTAINER_STARTED_EVENT)

    def deliver(event: Some) -> None:
        if event.container_id == "a":
            raise ValueError("no error that anyone foresaw")
        reported.append(event.container_id)

    await RuntimeEvents(ns(get_container_events=events), VirtualClock())._watch_cri(deliver)
    assert reported == ["b"]


async def test_plugin_that_raises_is_registered_at_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clock, tried = VirtualClock(), 0

    async def register(self: DriverRegistry, transport: Some, plugin: Some) -> None:
        nonlocal tried
        tried += 1
        if tried < 3:
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "what a plugin answers")

    monkeypatch.setattr(DriverRegistry, "_register", register)
    registry = DriverRegistry(directory=tmp_path, clock=clock, timeout=1.0, events=CsiEvents())
    task: Awaitable[None] = asyncio.create_task(registry._register_until_done(ns(path=tmp_path / "x.sock")))
    await clock.advance(60)
    await task
    assert tried == 3
