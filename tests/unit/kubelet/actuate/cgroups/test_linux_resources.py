"""Conversion of requests and limits to kernel settings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.errors import Invalid
from pykubelet.base.units import Bytes, MilliCPU
from pykubelet.kubelet.actuate.cgroups.plan.linux_resources import (
    LinuxResources,
    NodePolicy,
    burstable_shares,
    container_resources,
    milli_cpu_to_quota,
    milli_cpu_to_shares,
    overhead_resources,
    page_size_name,
    pod_config,
    sandbox_resources,
)
from pykubelet.linux.cgroups import UNLIMITED, CgroupResources
from pykubelet.models.core_v1 import Container, EphemeralContainer, Pod, PodSpec, ResourceRequirements
from pykubelet.models.scalars import Quantity

V1 = NodePolicy(memory_capacity=Bytes(8 << 30), cgroup_version=1)
V2 = NodePolicy(memory_capacity=Bytes(8 << 30), cgroup_version=2)
MIB = 1 << 20


def needs(requests: dict[str, Quantity] | None = None, limits: dict[str, Quantity] | None = None) -> Container:
    return Container(name="c", resources=ResourceRequirements(requests=requests or {}, limits=limits or {}))


def pod(*containers: Container, **spec: object) -> Pod:
    return Pod(spec=PodSpec(containers=containers, **spec))  # type: ignore[arg-type]


def of(container: Container, policy: NodePolicy = V1) -> LinuxResources:
    return container_resources(pod(container), container, policy)


@pytest.mark.parametrize(
    ("milli", "shares"),
    [(0, 2), (1, 2), (2, 2), (3, 3), (100, 102), (1000, 1024), (256_000, 262_144), (10**9, 262_144)],
)
def test_shares_of_milli_cpu_are_within_the_kernels_bounds(milli: int, shares: int) -> None:
    assert milli_cpu_to_shares(MilliCPU(milli)) == shares


@pytest.mark.parametrize(
    ("milli", "period", "quota"),
    [
        (0, 100_000, 0),
        (1, 100_000, 1000),
        (10, 100_000, 1000),
        (11, 100_000, 1100),
        (1500, 100_000, 150_000),
        (500, 5000, 2500),
    ],
)
def test_quota_of_milli_cpu_is_at_least_the_kernels_minimum(milli: int, period: int, quota: int) -> None:
    assert milli_cpu_to_quota(MilliCPU(milli), period) == quota


@pytest.mark.parametrize(
    ("size", "name"), [(64 << 10, "64KB"), (2 << 20, "2MB"), (1 << 30, "1GB"), (16 << 30, "16GB"), (512, "512B")]
)
def test_page_size_is_named_as_in_hugetlb_files(size: int, name: str) -> None:
    assert page_size_name(Bytes(size)) == name


@pytest.mark.parametrize("size", [0, -2, 3000])
def test_invalid_page_size_raises(size: int) -> None:
    with pytest.raises(Invalid):
        page_size_name(Bytes(size))


def test_container_with_requests_and_limits_has_all_resources() -> None:
    resources = of(needs({"cpu": "250m", "memory": "64Mi"}, {"cpu": "500m", "memory": "128Mi"}))
    assert resources == LinuxResources(
        cpu_shares=256,
        cpu_quota_us=50_000,
        cpu_period_us=100_000,
        memory_limit=Bytes(128 * MIB),
        oom_score_adj=993,
    )


def test_container_without_requests_has_the_least_resources() -> None:
    assert of(Container(name="c")) == LinuxResources(cpu_shares=2, cpu_period_us=100_000, oom_score_adj=1000)


def test_weight_follows_the_limit_where_no_request_is() -> None:
    assert of(needs({}, {"cpu": "2"})).cpu_shares == 2048
    assert of(needs({"cpu": "0"}, {"cpu": "2"})).cpu_shares == 2


def test_quota_can_be_switched_off() -> None:
    policy = NodePolicy(memory_capacity=Bytes(8 << 30), cgroup_version=1, cpu_cfs_quota=False)
    resources = of(needs({}, {"cpu": "2"}), policy)
    assert (resources.cpu_quota_us, resources.cpu_period_us) == (0, 0)


def test_pod_level_limits_stand_in() -> None:
    level = ResourceRequirements(limits={"cpu": "2", "memory": "1Gi", "hugepages-2Mi": "4Mi"})
    bare, own = needs(), needs({}, {"memory": "1Mi", "hugepages-2Mi": "2Mi"})
    value = pod(bare, own, resources=level)
    policy = NodePolicy(memory_capacity=Bytes(8 << 30), hugepage_sizes=(Bytes(2 * MIB), Bytes(1 << 30)))
    first = container_resources(value, bare, policy)
    assert (first.cpu_quota_us, first.memory_limit) == (200_000, 1 << 30)
    assert first.hugepages == (("2MB", 4 * MIB), ("1GB", 0))
    second = container_resources(value, own, policy)
    assert (second.memory_limit, second.hugepages[0]) == (MIB, ("2MB", 2 * MIB))


def test_swap_and_group_kill_are_set_by_cgroup_version() -> None:
    limited = needs({}, {"memory": "1Mi"})
    swap_v1 = NodePolicy(memory_capacity=Bytes(8 << 30), cgroup_version=1, swap_controller=True)
    assert of(limited, swap_v1).memory_swap_limit == MIB
    assert of(limited, swap_v1).unified == ()
    assert of(limited, V2).unified == (("memory.oom.group", "1"),)
    swap_v2 = NodePolicy(memory_capacity=Bytes(8 << 30), swap_controller=True, single_process_oom_kill=True)
    assert of(limited, swap_v2).unified == (("memory.swap.max", "0"),)
    assert of(limited, swap_v2).memory_swap_limit == 0


@pytest.mark.parametrize(
    ("container", "spec", "swap"),
    [
        (needs({"memory": "1Gi"}), {}, 512 * MIB),
        (needs({"memory": "1Gi"}, {"memory": "2Gi"}), {}, 512 * MIB),
        (needs({"memory": "8Gi"}), {}, 4096 * MIB),
        (needs({"memory": "9Gi"}), {}, 0),
        (needs({"memory": "1Gi"}, {"memory": "1Gi"}), {}, 0),
        (needs({"cpu": "1"}), {}, 0),
        (needs({}, {"memory": "1Gi", "cpu": "1"}), {}, 0),
        (needs({"memory": "1Gi", "cpu": "1"}, {"memory": "1Gi", "cpu": "1"}), {}, 0),
        (needs(), {}, 0),
        (needs({"memory": "1Gi"}), {"priority": 2_000_000_000}, 0),
    ],
)
def test_limited_swap_goes_to_burstable_containers(container: Container, spec: dict[str, object], swap: int) -> None:
    policy = NodePolicy(memory_capacity=Bytes(8 << 30), swap_controller=True, swap=Bytes(4 << 30))
    resources = container_resources(pod(container, **spec), container, policy)
    assert dict(resources.unified)["memory.swap.max"] == str(swap)


def test_ephemeral_containers_are_unlimited() -> None:
    value = pod(needs({"memory": "1Gi"}))
    resources = container_resources(value, EphemeralContainer(name="debug"), V1)
    assert (resources.cpu_shares, resources.cpu_quota_us, resources.memory_limit) == (2, 0, 0)


def test_sandbox_has_the_sums_of_its_containers_and_the_overhead() -> None:
    value = pod(
        needs({"cpu": "1"}, {"cpu": "2", "memory": "1Mi"}),
        needs({"cpu": "500m"}, {"memory": "1Mi"}),
        overhead={"cpu": "100m", "memory": "3Mi"},
    )
    sums = sandbox_resources(value, V1)
    assert (sums.cpu_shares, sums.cpu_quota_us, sums.memory_limit) == (1536, 200_000, 2 * MIB)
    extra = overhead_resources(value, V1)
    assert extra is not None
    assert (extra.cpu_shares, extra.cpu_quota_us, extra.memory_limit) == (102, 10_000, 3 * MIB)
    assert overhead_resources(pod(needs()), V1) is None


def test_cgroup_of_a_best_effort_pod_has_minimal_shares_only() -> None:
    assert pod_config(pod(needs()), V1) == CgroupResources(cpu_shares=2)


def test_the_cgroup_of_a_guaranteed_pod() -> None:
    full: dict[str, Quantity] = {"cpu": "1", "memory": "1Mi"}
    policy = NodePolicy(memory_capacity=Bytes(8 << 30), pod_pids_limit=100, hugepage_sizes=(Bytes(2 * MIB),))
    value = pod(needs(full, full), overhead={"memory": "1Mi", "cpu": "1"})
    assert pod_config(value, policy) == CgroupResources(
        cpu_shares=2048,
        cpu_quota_us=200_000,
        cpu_period_us=100_000,
        memory_max=Bytes(2 * MIB),
        pids_max=100,
        hugepages=(("2MB", Bytes(0)),),
    )


def test_a_burstable_pod_is_bound_only_if_all_of_it_is() -> None:
    bound = pod(needs({"cpu": "1"}, {"cpu": "2", "memory": "1Mi"}), needs({}, {"cpu": "1"}))
    config = pod_config(bound, V1)
    assert (config.cpu_shares, config.cpu_quota_us, config.memory_max) == (1024, 300_000, None)
    loose = pod_config(pod(needs({"cpu": "1"}, {"cpu": "2"}), needs()), V1)
    assert (loose.cpu_quota_us, loose.cpu_period_us) == (None, None)


def test_the_pod_quota_is_lifted_where_quotas_are_off() -> None:
    policy = NodePolicy(memory_capacity=Bytes(8 << 30), cpu_cfs_quota=False)
    assert pod_config(pod(needs({"cpu": "1"}, {"cpu": "2"})), policy).cpu_quota_us == UNLIMITED


def test_burstable_shares_are_those_of_the_summed_requests() -> None:
    assert burstable_shares([]) == 2
    assert burstable_shares([MilliCPU(500), MilliCPU(250)]) == 768


def test_invalid_quantity_raises() -> None:
    with pytest.raises(Invalid, match="is not a quantity"):
        of(needs({"cpu": "a lot"}))


@given(st.integers(0, 10**7), st.integers(1000, 1_000_000))
def test_figures_stay_in_the_kernels_bounds(milli: int, period: int) -> None:
    assert 2 <= milli_cpu_to_shares(MilliCPU(milli)) <= 262_144
    quota = milli_cpu_to_quota(MilliCPU(milli), period)
    assert quota == 0 if milli == 0 else quota >= 1000
