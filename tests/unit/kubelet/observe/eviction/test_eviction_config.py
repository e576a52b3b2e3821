"""The configuration's fields about eviction, and the kernel's files that the agent watches for it."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.config import KubeletConfiguration, Settings
from pykubelet.kubelet.observe.eviction.eviction_config import alarm_config, eviction_config, limited_cgroup
from pykubelet.kubelet.observe.eviction.eviction_types import Signal
from pykubelet.linux.cgroups import Layout, Mode

V1 = Layout(Mode.V1, controllers={"memory": Path("/cg/memory")})
V2 = Layout(Mode.V2, unified=Path("/cg"))
NONE = Layout(Mode.NONE)
PRESSURE = Path("/proc/pressure/memory")


def settings(**fields: Any) -> Settings:
    return Settings("n", replace(KubeletConfiguration(), **fields), "unix:///run/x.sock")


def signals(**fields: Any) -> set[Signal]:
    return {each.signal for each in eviction_config(settings(**fields)).thresholds}


def test_memory_of_all_pods_has_a_threshold_only_if_it_has_a_limit() -> None:
    assert Signal.ALLOCATABLE_MEMORY in signals()
    assert Signal.ALLOCATABLE_MEMORY not in signals(enforce_node_allocatable=("none",))
    assert Signal.ALLOCATABLE_MEMORY not in signals(cgroups_per_qos=False)


def test_default_thresholds_are_merged_only_on_request() -> None:
    own: dict[str, Any] = {"eviction_hard": {"nodefs.available": "1Gi"}, "enforce_node_allocatable": ("none",)}
    assert signals(**own) == {Signal.NODEFS}
    assert signals(**own, merge_default_eviction_settings=True) > {Signal.NODEFS, Signal.MEMORY}


def test_error_of_a_grace_period_names_its_signal() -> None:
    wrong = {"memory.available": "soon"}
    with pytest.raises(Invalid, match=r"evictionSoftGracePeriod\[memory.available\]: "):
        eviction_config(settings(eviction_soft={"memory.available": "1Gi"}, eviction_soft_grace_period=wrong))


def test_periods_and_limits_are_those_of_the_configuration() -> None:
    found = eviction_config(
        settings(
            eviction_pressure_transition_period="2m",
            eviction_max_pod_grace_period=7,
            local_storage_capacity_isolation=False,
        )
    )
    assert (found.transition, found.max_grace, found.local_storage) == (120, 7, False)


def test_cgroup_of_all_pods_is_observed_if_a_threshold_may_be_about_it() -> None:
    assert limited_cgroup(settings(), V2) == "/kubepods"
    assert limited_cgroup(settings(cgroup_root="/a", cgroup_driver="systemd"), V1) == "/a.slice/a-kubepods.slice"
    assert limited_cgroup(settings(enforce_node_allocatable=("none",)), V2) is None
    assert limited_cgroup(settings(), NONE) is None


def test_cgroups_raise_an_alarm_only_with_kernel_memcg_notification() -> None:
    for layout in (V1, V2):
        found = alarm_config(settings(), layout)
        assert (found.usage, found.events, found.pressure) == ({}, None, PRESSURE)
    wanted = settings(kernel_memcg_notification=True)
    assert alarm_config(wanted, V2).events == Path("/cg/kubepods/memory.events")
    assert alarm_config(wanted, V1).usage == {
        Signal.MEMORY: Path("/cg/memory"),
        Signal.ALLOCATABLE_MEMORY: Path("/cg/memory/kubepods"),
    }
    assert alarm_config(wanted, NONE).usage == {}
