"""Memory protection and throttling: the figures, and the files in a fake cgroup tree."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from pykubelet.base.units import Bytes
from pykubelet.kubelet.actuate.cgroups import PodCgroupManager, PolicyConfig, node_policy
from pykubelet.kubelet.actuate.cgroups.plan.linux_resources import container_resources
from pykubelet.kubelet.actuate.cgroups.plan.memory_qos import (
    MemoryQos,
    Protection,
    container_files,
    level_protection,
    pod_protection,
)
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.resources.qos import QosClass, pod_qos
from pykubelet.linux import system
from pykubelet.linux.cgroups import Layout, Mode
from pykubelet.linux.cgroups.v2 import CgroupV2
from pykubelet.models.core_v1 import Pod, ResourceRequirements
from pykubelet.models.scalars import Quantity
from pykubelet.testing.cgroups import FakeCgroupFiles
from pykubelet.testing.clock import VirtualClock
from tests.unit.kubelet.actuate.cgroups.kit import CONFIG, POLICY, pod

MI = 1 << 20
THROTTLE = MemoryQos(factor=0.9, allocatable=Bytes(1000 * MI))
TIERED = replace(THROTTLE, tiered=True)
ONE: dict[str, Quantity] = {"cpu": "1", "memory": "256Mi"}
GUARANTEED = pod("guaranteed", ONE, ONE)
BURSTABLE = pod("burstable", {"memory": "256Mi"}, {"memory": "512Mi"})
NO_LIMIT = pod("no-limit", {"memory": "128Mi"})
BEST_EFFORT = pod("best-effort")


def high(request: int, limit: int, factor: float = 0.9) -> str:
    return str(int(request * MI + (limit - request) * MI * factor) // 4096 * 4096)


@pytest.mark.parametrize(
    ("value", "request_mi", "limit_mi", "qos", "files"),
    [
        (GUARANTEED, 256, 256, TIERED, {"memory.min": str(256 * MI)}),
        (GUARANTEED, 256, 256, THROTTLE, {}),
        (BURSTABLE, 256, 512, THROTTLE, {"memory.high": high(256, 512)}),
        (BURSTABLE, 256, 512, TIERED, {"memory.low": str(256 * MI), "memory.high": high(256, 512)}),
        (BURSTABLE, 256, 512, replace(THROTTLE, factor=1.0), {"memory.high": str(512 * MI)}),
        (BURSTABLE, 256, 256, TIERED, {"memory.low": str(256 * MI)}),
        (NO_LIMIT, 128, 0, THROTTLE, {"memory.high": high(128, 1000)}),
        (NO_LIMIT, 1200, 0, THROTTLE, {}),
        (BEST_EFFORT, 0, 0, TIERED, {"memory.high": high(0, 1000)}),
        (NO_LIMIT, 128, 0, replace(THROTTLE, allocatable=Bytes(0)), {}),
        (BURSTABLE, 0, 512, TIERED, {"memory.high": high(0, 512)}),
    ],
)
def test_memory_files_of_a_container_follow_its_qos_class(
    value: Pod, request_mi: int, limit_mi: int, qos: MemoryQos, files: Mapping[str, str]
) -> None:
    assert dict(container_files(value, Bytes(request_mi * MI), Bytes(limit_mi * MI), qos)) == files


def test_throttling_begins_at_a_whole_page() -> None:
    found = dict(container_files(BURSTABLE, Bytes(1), Bytes(10_000_000), replace(THROTTLE, page_size=Bytes(65536))))
    assert found == {"memory.high": str(9_000_000 // 65536 * 65536)}


@pytest.mark.parametrize("beyond", [0, 1, 4095])
def test_container_is_not_throttled_at_its_request(beyond: int) -> None:
    """A limit less than a page above it leaves no whole page at which throttling could begin."""
    qos = replace(THROTTLE, factor=1.0)
    assert container_files(BURSTABLE, Bytes(256 * MI), Bytes(256 * MI + beyond), qos) == ()
    found = dict(container_files(BURSTABLE, Bytes(256 * MI), Bytes(256 * MI + 4096), qos))
    assert found == {"memory.high": str(256 * MI + 4096)}


def test_container_of_a_pod_that_is_guaranteed_as_a_whole_is_not_throttled() -> None:
    """Its own requests and limits need not be equal."""
    value = pod("p", {"memory": "64Mi"}, {"memory": "128Mi"})
    whole = ResourceRequirements(limits=ONE, requests=ONE)
    value = msgspec.structs.replace(value, spec=msgspec.structs.replace(value.spec, resources=whole))
    assert pod_qos(value) is QosClass.GUARANTEED
    assert container_files(value, Bytes(64 * MI), Bytes(128 * MI), THROTTLE) == ()


@pytest.mark.parametrize(
    ("value", "protection"),
    [
        (GUARANTEED, Protection(min=Bytes(256 * MI))),
        (BURSTABLE, Protection(low=Bytes(256 * MI))),
        (BEST_EFFORT, Protection()),
        (pod("cpu", {"cpu": "1"}), Protection()),
    ],
)
def test_memory_of_a_pod_is_protected_with_tiers_only(value: Pod, protection: Protection) -> None:
    assert pod_protection(value, TIERED) == protection
    assert pod_protection(value, THROTTLE) == Protection()


@pytest.mark.parametrize(("qos", "both", "burstable"), [(TIERED, 384, 256), (THROTTLE, 0, 0), (None, 0, 0)])
def test_protection_of_the_classes_is_the_sum(qos: MemoryQos | None, both: int, burstable: int) -> None:
    requests = [(QosClass.GUARANTEED, Bytes(128 * MI)), (QosClass.BURSTABLE, Bytes(256 * MI))]
    assert level_protection(requests, qos) == {
        QosClass.GUARANTEED: Protection(min=Bytes(both * MI)),
        QosClass.BURSTABLE: Protection(low=Bytes(burstable * MI)),
    }


def test_limit_of_the_pod_as_a_whole_is_that_of_a_container_without_one() -> None:
    value = pod("p")
    whole = ResourceRequirements(limits={"memory": "512Mi"})
    value = msgspec.structs.replace(value, spec=msgspec.structs.replace(value.spec, resources=whole))
    policy = replace(POLICY, memory_qos=THROTTLE)
    assert ("memory.high", high(0, 512)) in container_resources(value, value.spec.containers[0], policy).unified
    assert not [
        name for name, _ in container_resources(value, value.spec.containers[0], POLICY).unified if "high" in name
    ]


def manager(files: FakeCgroupFiles, qos: MemoryQos | None, clock: VirtualClock) -> PodCgroupManager:
    config = replace(CONFIG, policy=replace(POLICY, memory_qos=qos))
    return PodCgroupManager(cgroups=CgroupV2(files.root, files), config=config, clock=clock)


async def test_pods_and_classes_are_protected_in_the_tree(tmp_path: Path) -> None:
    files, clock = FakeCgroupFiles(tmp_path / "cgroup"), VirtualClock()

    def content(path: str) -> str:
        return (files.root / path).read_text()

    async def levels(both: int, burstable: int) -> None:
        wanted = [str(both * MI), str(burstable * MI)]
        while [content("kubepods/memory.min"), content("kubepods/burstable/memory.low")] != wanted:
            await clock.advance(1)

    made = manager(files, TIERED, clock)
    await made.levels.start()
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        task = group.create_task(made.levels.run())
        for value in (GUARANTEED, BURSTABLE, NO_LIMIT, BEST_EFFORT):
            await made.ensure_pod(value)
        assert content("kubepods/podguaranteed/memory.min") == str(256 * MI)
        assert content("kubepods/burstable/podburstable/memory.low") == str(256 * MI)
        await levels(256 + 256 + 128, 256 + 128)
        assert made.levels.protected() == Protection(min=Bytes(256 * MI), low=Bytes(384 * MI))
        await made.remove_pod(PodUID("burstable"))
        await levels(256 + 128, 128)
        resized = pod("no-limit", {"memory": "64Mi"})
        assert made.wanted_limits(resized).memory_low == 64 * MI
        await made.ensure_pod(resized)
        assert content("kubepods/burstable/podno-limit/memory.low") == str(64 * MI)
        await levels(256 + 64, 64)
        task.cancel()
    assert manager(files, THROTTLE, clock).levels.protected() == Protection(min=Bytes(0), low=Bytes(0))
    # Without reservations, the next agent removes those of the classes, without which those of pods have no effect.
    without = manager(files, None, clock)
    assert without.levels.protected() is None
    await without.levels.start()
    assert [content("kubepods/memory.min"), content("kubepods/burstable/memory.low")] == ["0", "0"]


@pytest.mark.parametrize(
    ("mode", "release", "has", "message"),
    [
        (Mode.V2, (6, 1), True, ""),
        (Mode.V2, (5, 8), True, "memory.high can hang processes"),
        (Mode.V1, (6, 1), False, "memory QoS not applied: cgroup v2 is required"),
        (Mode.HYBRID, (6, 1), False, "cgroup v2 is required"),
    ],
)
def test_machine_decides_whether_memory_qos_is_applied(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    mode: Mode,
    release: tuple[int, int],
    has: bool,
    message: str,
) -> None:
    monkeypatch.setattr(system, "kernel_release", lambda: release)
    policy = node_policy(Layout(mode, Path("/none")), PolicyConfig(memory_qos=TIERED))
    assert (policy.memory_qos is not None) is has
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == bool(message) and message in "".join(warnings)
