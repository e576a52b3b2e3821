"""The node shutdown with a logind in a table, on a virtual clock."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from pykubelet.base.concurrency.callbacks import Callbacks
from pykubelet.base.errors import Transient
from pykubelet.kubelet.observe.node_shutdown import NodeShutdown, ShutdownConfig, ShutdownDeps, shutdown_manager
from pykubelet.kubelet.observe.node_shutdown.plan.groups import Period
from pykubelet.kubelet.observe.node_shutdown.shutdown_state import ShutdownTimes, read_times, write_times
from pykubelet.kubelet.types.ids import PodRef, PodUID
from pykubelet.models.core_v1 import Pod
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.telemetry import telemetry
from pykubelet.testing.wait import until
from tests.unit.kubelet.observe.node_shutdown.build import make_pod

PERIODS = (Period(0, 20), Period(100, 10))


class Lock:
    def __init__(self) -> None:
        self.held = True

    def release(self) -> None:
        self.held = False


@dataclass
class Machine:
    """logind, the pods, and what is done to them."""

    home: Path
    clock: VirtualClock = field(default_factory=VirtualClock)
    pods: list[Pod] = field(default_factory=list)
    lasting: set[str] = field(default_factory=set)
    """Pods that do not end by themselves."""
    ended: set[str] = field(default_factory=set)
    failing: set[str] = field(default_factory=set)
    done: list[str] = field(default_factory=list)
    locks: list[Lock] = field(default_factory=list)
    times: ShutdownTimes | None = None
    delay: float = 60
    delay_after_reload: float | None = None
    announced: bool = False
    changes: "asyncio.Queue[bool | None]" = field(default_factory=asyncio.Queue)
    connections: int = 0
    closes: int = 0
    closing: asyncio.Event | None = None
    """Event that the end of a connection waits for."""

    @property
    def drop_in(self) -> Path:
        return self.home / "conf.d" / "99-kubelet.conf"

    @property
    def state_file(self) -> Path:
        return self.home / "state"

    def shutdown(self, periods: tuple[Period, ...] = PERIODS) -> NodeShutdown:
        changed = Callbacks[[]]()
        changed.subscribe(lambda: self.done.append("changed"))
        deps = ShutdownDeps(
            connect=self.connect, workers=self, changed=changed, telemetry=telemetry(self.clock, self, events=self)
        )
        return NodeShutdown(deps, ShutdownConfig(periods=periods, state_file=self.state_file, drop_in=self.drop_in))

    @property
    def held(self) -> int:
        return sum(lock.held for lock in self.locks)

    async def announce(self, begins: bool) -> None:
        self.announced = begins
        self.changes.put_nowait(begins)
        await self.clock.settle()

    async def lose_connection(self) -> None:
        self.changes.put_nowait(None)
        await self.clock.settle()

    # logind
    @asynccontextmanager
    async def connect(self) -> AsyncIterator["Machine"]:
        self.connections += 1
        try:
            yield self
        finally:
            self.closes += 1
            if self.closing is not None:
                await self.closing.wait()

    async def max_delay(self) -> float:
        return self.delay

    async def preparing(self) -> bool:
        return self.announced

    async def inhibit(self, who: str, why: str) -> Lock:
        if self.announced:
            raise Transient("logind refused Inhibit")
        self.locks.append(Lock())
        return self.locks[-1]

    async def reload(self) -> None:
        self.done.append("reload")
        if self.delay_after_reload is not None:
            self.delay = self.delay_after_reload

    async def next_change(self) -> bool:
        change = await self.changes.get()
        if change is None:
            raise Transient("the connection was lost")
        return change

    # workers
    def running(self) -> Iterable[Pod]:
        return [pod for pod in self.pods if pod.metadata.uid not in self.ended]

    def fail(self, uid: PodUID, reason: str, message: str, grace_seconds: int | None = None) -> None:
        if uid in self.failing:
            raise ValueError("no error that anyone foresaw")
        self.done.append(f"{reason} {uid} {grace_seconds}: {message}")
        if uid not in self.lasting:
            self.ended.add(uid)

    def released(self, uid: PodUID) -> bool:
        return uid in self.ended

    # recorders
    def event(
        self, pod: PodRef | None, event_type: str, reason: str, message: str, *, container: str = "", **more: object
    ) -> None:
        self.done.append(f"event {event_type} {reason} {message}")

    def shutdown_times(self, start: float, end: float) -> None:
        self.times = ShutdownTimes(start, end)


@pytest.fixture(autouse=True)
def _without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A virtual clock does not wait for threads that a busy machine or disk delays."""

    async def call(owner: str, function: Callable[..., object], *arguments: object, **_: object) -> object:
        return function(*arguments)

    monkeypatch.setattr(shutdown_manager, "blocking", SimpleNamespace(call=call))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@asynccontextmanager
async def running(machine: Machine, shutdown: NodeShutdown | None = None) -> AsyncIterator[NodeShutdown]:
    found = shutdown or machine.shutdown()
    task = asyncio.create_task(found.run())
    await machine.clock.settle()
    try:
        yield found
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def stopped(machine: Machine) -> list[str]:
    return [text.split(":")[0] for text in machine.done if text.startswith("Terminated")]


async def test_shutdown_ends_pods_by_priority_and_releases_the_lock(machine: Machine) -> None:
    machine.pods = [make_pod("critical", 100), make_pod("own", grace=5), make_pod("plain")]
    machine.lasting = {"own", "critical"}
    async with running(machine) as shutdown:
        assert (machine.held, shutdown.fault(), shutdown.under_way()) == (1, None, False)
        await machine.announce(True)
        assert (shutdown.fault(), shutdown.under_way()) == ("node is shutting down", True)
        assert machine.done[:2] == ["event Normal Shutdown Shutdown manager detected shutdown event", "changed"]
        assert stopped(machine) == ["Terminated own 5", "Terminated plain 20"]
        assert machine.done[2].endswith(": Pod was terminated in response to imminent node shutdown.")
        await machine.clock.advance(7)
        assert len(stopped(machine)) == 2, "the second group waits for the first"
        machine.ended.add("own")
        await machine.clock.advance(0.2)
        assert stopped(machine)[2:] == ["Terminated critical 10"]
        assert machine.held == 1
        machine.ended.add("critical")
        await machine.clock.advance(0.2)
        assert machine.held == 0
        assert shutdown.under_way(), "no pod is admitted until the machine is down"


async def test_pods_that_do_not_end_delay_the_shutdown_by_their_period_only(machine: Machine) -> None:
    machine.pods = [make_pod("a"), make_pod("b", 100)]
    machine.lasting = {"a", "b"}
    async with running(machine):
        await machine.announce(True)
        await machine.clock.advance(19.5)
        assert stopped(machine) == ["Terminated a 20"]
        await machine.clock.advance(1)
        assert stopped(machine)[1:] == ["Terminated b 10"]
        await machine.clock.advance(9)
        assert machine.held == 1
        await machine.clock.advance(1)
        assert machine.held == 0


async def test_cancellation_keeps_the_other_pods_and_takes_a_new_lock(machine: Machine) -> None:
    machine.pods = [make_pod("a"), make_pod("b", 100)]
    machine.lasting = {"a"}
    async with running(machine) as shutdown:
        await machine.announce(True)
        await machine.announce(False)
        await machine.clock.advance(40)
        assert stopped(machine) == ["Terminated a 20"]
        assert "event Normal Shutdown Shutdown manager detected shutdown cancellation" in machine.done
        assert not shutdown.under_way()
        assert (machine.held, len(machine.locks)) == (1, 2)
        await machine.announce(True)
        assert stopped(machine)[1:] == ["Terminated a 20"]


async def test_cancellation_after_the_end_of_the_pods_takes_a_new_lock(machine: Machine) -> None:
    async with running(machine) as shutdown:
        await machine.announce(True)
        assert machine.held == 0
        await machine.announce(False)
        assert (machine.held, shutdown.fault()) == (1, None)


async def test_lost_connection_is_opened_again_and_the_lock_is_kept_meanwhile(machine: Machine) -> None:
    async with running(machine):
        await machine.lose_connection()
        assert (machine.connections, machine.held) == (1, 1)
        await machine.clock.advance(2)
        assert (machine.connections, machine.held, len(machine.locks)) == (2, 1, 2)
        await machine.announce(True)
        assert machine.held == 0


async def test_lost_connection_does_not_interrupt_a_shutdown(machine: Machine) -> None:
    machine.pods, machine.lasting = [make_pod("a"), make_pod("b", 100)], {"a"}
    async with running(machine) as shutdown:
        await machine.announce(True)
        await machine.lose_connection()
        await machine.clock.advance(5)
        assert (machine.connections, machine.held, shutdown.under_way()) == (2, 1, True)
        machine.ended.add("a")
        await machine.clock.advance(1)
        assert stopped(machine) == ["Terminated a 20", "Terminated b 10"]
        assert machine.held == 0


async def test_shutdown_that_was_announced_before_the_start_ends_the_pods(machine: Machine) -> None:
    machine.announced, machine.pods = True, [make_pod("a")]
    async with running(machine) as shutdown:
        assert shutdown.fault() == "node is shutting down"
        assert stopped(machine) == ["Terminated a 20"]


async def test_cancellation_that_a_lost_connection_hid_is_noticed(machine: Machine) -> None:
    async with running(machine) as shutdown:
        await machine.announce(True)
        machine.announced = False
        await machine.lose_connection()
        await machine.clock.advance(2)
        assert (shutdown.under_way(), machine.held) == (False, 1)


async def test_pod_that_raises_keeps_no_other_and_no_lock(machine: Machine) -> None:
    machine.pods, machine.failing = [make_pod("a"), make_pod("b"), make_pod("c", 100)], {"a"}
    async with running(machine):
        await machine.announce(True)
        await machine.clock.advance(21)
        assert stopped(machine) == ["Terminated b 20", "Terminated c 10"]
        assert machine.held == 0


async def test_round_that_raises_releases_the_lock(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Iterable[Pod]:
        raise ValueError("no error that anyone foresaw")

    monkeypatch.setattr(machine, "running", fail)
    async with running(machine):
        await machine.announce(True)
        assert machine.held == 0


async def test_short_delay_of_logind_is_raised_by_a_drop_in(machine: Machine) -> None:
    machine.delay, machine.delay_after_reload = 5, 30
    async with running(machine):
        assert machine.drop_in.read_text() == "# Kubelet logind override\n[Login]\nInhibitDelayMaxSec=30\n"
        assert machine.drop_in.stat().st_mode & 0o777 == 0o644
        assert (machine.done, machine.held) == (["reload"], 1)


async def test_sufficient_delay_of_logind_is_left_alone(machine: Machine) -> None:
    machine.delay = 30
    async with running(machine):
        assert not machine.drop_in.exists()
        assert machine.done == []


async def test_delay_that_stays_too_short_is_an_error_that_is_retried(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    machine.delay = 5
    async with running(machine):
        await machine.clock.advance(6)
        assert machine.held == 0
        errors = [str(getattr(record, "error", "")) for record in caplog.records]
        expected = "unable to update logind InhibitDelayMaxSec to 30s (ShutdownGracePeriod), current value of"
        assert any(expected in error for error in errors)
        machine.delay_after_reload = 30
        await machine.clock.advance(60)
        assert machine.held == 1


async def test_end_of_the_agent_releases_the_lock(machine: Machine) -> None:
    async with running(machine):
        held = machine.held
    assert (held, machine.held) == (1, 0)


async def test_times_are_kept_for_the_next_start(machine: Machine) -> None:
    machine.pods, machine.lasting = [make_pod("a")], {"a"}
    async with running(machine):
        assert machine.times == ShutdownTimes()
        begun = machine.clock.now()
        await machine.announce(True)
        assert machine.times == ShutdownTimes(begun)
        assert read_times(machine.state_file) == ShutdownTimes(begun)
        await machine.clock.advance(8)
        machine.ended.add("a")
        await machine.clock.advance(1)
    after = Machine(machine.home)
    async with running(after):
        restored = after.times
    assert restored is not None
    assert restored.start == begun
    assert 8 <= restored.end - begun <= 9


def test_state_file_has_the_go_kubelets_format(tmp_path: Path) -> None:
    path = tmp_path / "state"
    write_times(path, ShutdownTimes(1_700_000_000.5))
    assert path.read_text() == '{"startTime":"2023-11-14T22:13:20.500000Z","endTime":"0001-01-01T00:00:00Z"}'
    path.write_text('{"startTime":"2023-11-14T23:13:20.123456789+01:00","endTime":"2023-11-14T22:13:40Z","other":1}')
    times = read_times(path)
    assert (round(times.start, 3), times.end) == (1_700_000_000.123, 1_700_000_020)


async def test_damaged_state_file_is_set_aside(machine: Machine) -> None:
    machine.state_file.write_text("{")
    async with running(machine):
        assert machine.held == 1
        assert not machine.state_file.exists()


async def test_changed_periods_hold_for_the_next_shutdown(tmp_path: Path) -> None:
    machine = Machine(tmp_path, delay=25, delay_after_reload=30)
    found = machine.shutdown(())
    async with running(machine, found):
        await machine.clock.advance(5)
        assert (machine.connections, machine.held) == (0, 0)
        found.reconfigure(PERIODS)
        await until(lambda: machine.held == 1)
        machine.delay_after_reload = 90
        assert "InhibitDelayMaxSec=30" in machine.drop_in.read_text()
        found.reconfigure((Period(0, 90),))
        await until(lambda: machine.connections == 2 and machine.held == 1)
        assert "InhibitDelayMaxSec=90" in machine.drop_in.read_text()
        found.reconfigure(())
        await until(lambda: machine.held == 0)
        await machine.clock.advance(60)
        assert machine.connections == 2


async def test_periods_that_change_again_while_the_connection_ends_are_taken(tmp_path: Path) -> None:
    machine = Machine(tmp_path, delay=90)
    found = machine.shutdown()
    async with running(machine, found):
        await until(lambda: machine.held == 1)
        machine.closing = asyncio.Event()
        found.reconfigure((Period(0, 80),))
        await until(lambda: machine.closes == 1)
        found.reconfigure((Period(0, 90),))  # must not fail: other components would keep the former configuration
        machine.closing.set()
        await until(lambda: machine.connections == 2)


async def test_changed_periods_leave_a_shutdown_that_is_under_way(tmp_path: Path) -> None:
    machine = Machine(tmp_path, pods=[make_pod("lasting")], lasting={"lasting"})
    found = machine.shutdown()
    async with running(machine, found):
        await until(lambda: machine.held == 1)
        await machine.announce(True)
        found.reconfigure(())
        await machine.clock.advance(10)
        assert (found.under_way(), machine.connections, machine.held) == (True, 1, 1)
