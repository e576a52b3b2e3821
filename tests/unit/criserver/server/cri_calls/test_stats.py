"""Lists of statistics: one container that cannot be measured does not affect others."""

from types import SimpleNamespace
from typing import Any

import pytest

from pykubelet.base.errors import Transient
from pykubelet.criserver.server.cri_calls.stats import StatsCalls
from pykubelet.criserver.stats import ContainerUsage, PodUsage
from pykubelet.linux.cgroups import CgroupStats, Pressure, Stall
from pykubelet.linux.procparse import NetDevice
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.clock import VirtualClock


def _container(identity: str) -> Any:
    return SimpleNamespace(
        id=identity, running=True, config=pb.ContainerConfig(), record=SimpleNamespace(sandbox_id="s", cgroup="/c")
    )


class Collector:
    async def container(self, container: Any) -> ContainerUsage:
        if container.id == "hangs":
            raise Transient("its cgroup is not responding")
        return ContainerUsage(1, CgroupStats(), None, None)


def _calls(collector: Any, containers: Any, sandboxes: Any = None) -> StatsCalls:
    return StatsCalls(collector=collector, containers=containers, sandboxes=sandboxes, clock=VirtualClock())


@pytest.fixture
def calls() -> StatsCalls:
    table = SimpleNamespace(visible=lambda: map(_container, ("one", "hangs", "two")))
    containers = SimpleNamespace(table=table)
    return _calls(Collector(), containers)


async def test_container_that_cannot_be_measured_is_left_out_of_the_list(calls: StatsCalls) -> None:
    listed = await calls.listed_containers(pb.ListContainerStatsRequest())
    assert sorted(each.attributes.id for each in listed.stats) == ["one", "two"]


async def test_container_of_the_sandbox_asked_for_that_cannot_be_measured_is_an_error(calls: StatsCalls) -> None:
    wanted = pb.ContainerStatsFilter(pod_sandbox_id="s")
    with pytest.raises(Transient, match="not responding"):
        await calls.listed_containers(pb.ListContainerStatsRequest(filter=wanted))


async def test_pressure_is_reported_where_it_is_measured(calls: StatsCalls, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = CgroupStats(cpu_pressure=Pressure(some=Stall(3, 1.5)), io_pressure=Pressure(full=Stall(4, 0.0, 2.5)))

    async def container(_self: Collector, _container: Any) -> ContainerUsage:
        return ContainerUsage(1, measured, None, None)

    monkeypatch.setattr(Collector, "container", container)
    found = (await calls.listed_containers(pb.ListContainerStatsRequest())).stats[0]
    assert (found.cpu.psi.Some.Total, found.cpu.psi.Some.Avg10) == (3000, 1.5), "in nanoseconds"
    assert (found.io.psi.Full.Total, found.io.psi.Full.Avg60) == (4000, 2.5)
    assert not found.memory.HasField("psi")


async def test_pressure_is_left_out_where_the_kernel_does_not_measure_it(calls: StatsCalls) -> None:
    found = (await calls.listed_containers(pb.ListContainerStatsRequest())).stats[0]
    assert not found.cpu.HasField("psi") and not found.HasField("io")


@pytest.mark.parametrize(
    ("names", "default", "others"),
    [
        (("eth0", "eth1"), "eth0", ["eth1"]),
        (("tunl0", "sit0", "eth0"), "eth0", ["tunl0", "sit0"]),
        (("net1", "net2"), "net1", ["net2"]),
        ((), "", []),
    ],
)
async def test_default_interface_of_a_pod_is_that_of_its_first_network(
    names: tuple[str, ...], default: str, others: list[str]
) -> None:
    """Kernels with tunnel modules make tunl0, sit0 and others in each new namespace, before any CNI plugin runs."""

    class Pods:
        async def pod(self, sandbox: Any, netns: object) -> PodUsage:
            return PodUsage(1, CgroupStats(), None, tuple(NetDevice(name, rx_bytes=5) for name in names))

    pod = SimpleNamespace(id="s", config=pb.PodSandboxConfig())
    sandboxes = SimpleNamespace(
        table=SimpleNamespace(get=lambda _: pod), layout=SimpleNamespace(netns=lambda _: "/run/netns/s")
    )
    containers = SimpleNamespace(table=SimpleNamespace(of_sandbox=lambda _: []))
    calls = _calls(Pods(), containers, sandboxes)
    found = (await calls.pod(pb.PodSandboxStatsRequest(pod_sandbox_id="s"))).stats.linux.network
    assert found.default_interface.name == default
    assert [each.name for each in found.interfaces] == others
