"""Periodic questions to CSI drivers for the limit of the node's volumes."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

from pykubelet.base.errors import Transient
from pykubelet.kubelet.actuate.volumes.csi.csi_types import CsiEvents
from pykubelet.kubelet.actuate.volumes.csi.limit_updates import LimitUpdates
from pykubelet.kubelet.types.storage import DriverNodeInfo
from pykubelet.models.storage_v1 import CSIDriver, CSIDriverSpec
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.wait import settle


@dataclass
class World:
    """Drivers, their clients and objects."""

    periods: dict[str, int | None] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def driver(self, name: str) -> CSIDriver | None:
        spec = CSIDriverSpec(node_allocatable_update_period_seconds=self.periods.get(name))
        return CSIDriver(spec=spec) if name in self.periods else None

    def client(self, name: str) -> "Client":
        return Client(self, name)


@dataclass
class Client:
    world: World
    name: str

    async def info(self) -> DriverNodeInfo:
        self.world.asked.append(self.name)
        if self.name not in self.world.limits:
            raise Transient("not responding")
        return DriverNodeInfo("id", self.world.limits[self.name], {})


async def test_driver_that_fails_does_not_delay_the_others() -> None:
    world, events, clock = World(), CsiEvents(), VirtualClock()
    reported: list[tuple[str, int]] = []
    events.installed.subscribe(lambda name, info: reported.append((name, info.max_volumes)))
    updates = LimitUpdates(drivers=cast(Any, world), objects=cast(Any, world), events=events, clock=clock)
    world.periods = {"broken": 10, "changing": 30, "static": None}
    world.limits = {"changing": 5, "static": 7}
    for name in ("broken", "changing", "static", "without-object"):
        events.installed(name, DriverNodeInfo("id", 5, {}))
    reported.clear()
    task = asyncio.create_task(updates.run())
    try:
        await clock.advance(31)
        assert set(world.asked) == {"broken", "changing"} and reported == [], "the limit is the same"
        world.limits["changing"] = 3
        await clock.advance(30)
        assert reported == [("changing", 3)]
        await clock.advance(30)
        assert reported == [("changing", 3)], "it is known now"
        events.removed("changing")
        world.asked.clear()
        await clock.advance(60)
        assert "changing" not in world.asked
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_driver_is_asked_at_once_when_its_limit_is_reached_but_not_too_often() -> None:
    world, events, clock = World(), CsiEvents(), VirtualClock()
    reported: list[tuple[str, int]] = []
    updates = LimitUpdates(drivers=cast(Any, world), objects=cast(Any, world), events=events, clock=clock)
    world.periods = {"full": 3600, "static": None}
    world.limits = {"full": 5, "static": 5}
    for name in world.periods:
        events.installed(name, DriverNodeInfo("id", 5, {}))
    events.installed.subscribe(lambda name, info: reported.append((name, info.max_volumes)))
    task = asyncio.create_task(updates.run())
    try:
        await clock.advance(100)
        assert world.asked == []
        world.limits["full"] = 3
        events.limit_reached("full")
        await settle()
        assert world.asked == ["full"] and reported == [("full", 3)]
        for _ in range(3):
            events.limit_reached("full")
            await settle()
        assert world.asked == ["full"], "it was asked just now"
        await clock.advance(11)
        assert world.asked == ["full", "full"] and reported == [("full", 3)]
        await clock.advance(100)
        assert world.asked == ["full", "full"], "its limit was not reached again"
        events.limit_reached("static")
        await clock.advance(11)
        assert "static" not in world.asked
    finally:
        task.cancel()
        await asyncio.wait([task])
