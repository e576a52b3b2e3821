"""The limits of node allocatable that the configuration asks for."""

from pathlib import Path
from typing import Any

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.base.units import Bytes
from pykubelet.kubelet.actuate.cgroups import ReservedCgroup
from pykubelet.kubelet.actuate.host.enforcement import reserved_cgroups, root_limits
from pykubelet.kubelet.config import KubeletConfiguration, Settings
from pykubelet.kubelet.types.resources.allocatable import MachineResources
from pykubelet.linux.cgroups import CgroupResources

MACHINE = MachineResources(cpus=4, memory=Bytes(8 << 30))
RESERVED = {"kube_reserved": {"cpu": "500m", "memory": "1Gi"}, "system_reserved": {"cpu": "500m", "pid": "1000"}}


def settings(**fields: Any) -> Settings:
    return Settings("n", KubeletConfiguration(**fields), "unix:///none", root_dir=Path("/none"))


@pytest.mark.parametrize(
    ("fields", "limits"),
    [
        ({}, (4000, None, None)),
        (RESERVED, (3000, 7 << 30, 31_768)),
        ({**RESERVED, "enforce_node_allocatable": ("none",)}, (4000, None, None)),
        ({**RESERVED, "enforce_node_allocatable": ("kube-reserved",)}, (4000, None, None)),
    ],
)
def test_limits_of_all_pods_leave_out_what_is_reserved(
    fields: dict[str, Any], limits: tuple[int, int | None, int | None]
) -> None:
    found = root_limits(settings(**fields), MACHINE, 32_768)
    assert (found.cpu, found.memory, found.pids) == limits


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kube_reserved": {"memory": "9Gi"}}, "9316Mi of memory are reserved, but the machine has 8Gi; reserve less"),
        ({"kube_reserved": {"cpu": "2"}, "system_reserved": {"cpu": "3"}}, "5 of cpu are reserved"),
        ({"kube_reserved": {"memory": "8150Mi"}}, "8250Mi of memory are reserved"),  # with the threshold of eviction
        ({"kube_reserved": {"memory": "9Gi"}, "enforce_node_allocatable": ("none",)}, "of memory are reserved"),
        ({"kube_reserved": {"pid": "32768"}}, "all 32768 process IDs are reserved"),
    ],
)
def test_more_than_the_machine_has_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        root_limits(settings(**fields), MACHINE, 32_768)


def test_reserved_cgroups_have_the_resources_of_their_daemons() -> None:
    config = KubeletConfiguration(
        kube_reserved={"cpu": "500m", "memory": "1Gi", "hugepages-2Mi": "4Mi", "ephemeral-storage": "1Gi"},
        kube_reserved_cgroup="/kube",
        system_reserved={"cpu": "250m", "memory": "1Gi", "pid": "100"},
        system_reserved_cgroup="/system.slice",
        enforce_node_allocatable=("pods", "kube-reserved", "system-reserved-compressible"),
    )
    assert reserved_cgroups(config) == (
        ReservedCgroup("system", "/system.slice", CgroupResources(cpu_shares=256)),
        ReservedCgroup(
            "kube",
            "/kube",
            CgroupResources(cpu_shares=512, memory_max=Bytes(1 << 30), hugepages=(("2MB", Bytes(4 << 20)),)),
        ),
    )
    assert reserved_cgroups(KubeletConfiguration(system_reserved_cgroup="/system.slice")) == ()
