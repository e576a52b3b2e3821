"""Thresholds, conditions over time, the order of evictions, and limits of single pods."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.observe.eviction.eviction_types import (
    Amount,
    ContainerUse,
    Disks,
    DiskUse,
    EvictionConfig,
    PodUse,
    PressureCondition,
    Resource,
    Signal,
    SignalObservation,
    Threshold,
)
from pykubelet.kubelet.observe.eviction.plan.local_limits import exceeded, has_limits
from pykubelet.kubelet.observe.eviction.plan.ranking import reported
from pykubelet.kubelet.observe.eviction.plan.thresholds import (
    PressureState,
    amount,
    conditions,
    met,
    next_state,
    thresholds,
)
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.resources.eviction import DEFAULT_HARD
from pykubelet.models.core_v1 import Pod
from tests.unit.kubelet.observe.eviction.build import MI, make_pod, ranked

MEMORY = Threshold(Signal.MEMORY, Amount(100 * MI))
SOFT = Threshold(Signal.MEMORY, Amount(200 * MI), grace=60)
DISK = Threshold(Signal.NODEFS, Amount(share=0.1), reclaim=Amount(share=0.05))


def memory(mi: int) -> dict[Signal, SignalObservation]:
    return {Signal.MEMORY: SignalObservation(mi * MI, 1000 * MI)}


def test_thresholds_without_configuration_are_the_hard_defaults() -> None:
    found = thresholds({}, {}, {}, {})
    assert {t.signal for t in found} == set(DEFAULT_HARD)
    assert all(t.hard for t in found)
    assert MEMORY in found


def test_given_ones_take_the_place_of_the_defaults() -> None:
    found = thresholds(
        {"memory.available": "1Gi"}, {"nodefs.available": "20%"}, {"nodefs.available": 90}, {"nodefs.available": "5%"}
    )
    assert found == (
        Threshold(Signal.MEMORY, Amount(1 << 30)),
        Threshold(Signal.NODEFS, amount("f", "20%"), 90, amount("f", "5%")),
    )


@pytest.mark.parametrize("text", ["0%", "100%"])
def test_a_signal_can_be_turned_off(text: str) -> None:
    assert thresholds({"memory.available": text}, {}, {}, {}) == ()


@pytest.mark.parametrize(
    ("hard", "soft", "words"),
    [
        ({"cpu.available": "1"}, {}, "unknown eviction signal 'cpu.available'"),
        ({"memory.available": "much"}, {}, "not a quantity"),
        ({"memory.available": "-1"}, {}, "must not be negative"),
        ({"memory.available": "x%"}, {}, "is not a percentage"),
        ({"memory.available": "101%"}, {}, "from 0% to 100%"),
        ({"memory.available": "0"}, {}, "must be positive; 0% turns the signal off"),
        ({}, {"memory.available": "1Gi"}, "evictionSoftGracePeriod"),
    ],
)
def test_invalid_thresholds_are_rejected(hard: Mapping[str, str], soft: Mapping[str, str], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        thresholds(hard, soft, {}, {})


def test_signals_of_grace_periods_and_minimum_reclaims_have_to_exist() -> None:
    with pytest.raises(Invalid, match="evictionSoftGracePeriod: unknown eviction signal 'memory'"):
        thresholds({}, {}, {"memory": 3}, {})
    with pytest.raises(Invalid, match="evictionMinimumReclaim: unknown eviction signal 'disk'"):
        thresholds({}, {}, {}, {"disk": "1Gi"})
    with pytest.raises(Invalid, match=r"evictionMinimumReclaim\[nodefs.available\]: '0%' must be positive"):
        thresholds({}, {}, {}, {"nodefs.available": "0%"})


def test_hard_threshold_of_memory_holds_for_allocatable_memory_too() -> None:
    found = thresholds(
        {"memory.available": "1Gi"},
        {"memory.available": "2Gi"},
        {"memory.available": 30},
        {"memory.available": "5%"},
        allocatable=True,
    )
    share = amount("f", "5%")
    assert found == (
        Threshold(Signal.MEMORY, Amount(1 << 30), reclaim=share),
        Threshold(Signal.MEMORY, Amount(2 << 30), 30, share),
        Threshold(Signal.ALLOCATABLE_MEMORY, Amount(1 << 30), reclaim=share),
    )


def test_share_is_rounded_as_by_the_go_kubelet() -> None:
    assert amount("f", "10%").of(100 << 30) == (10 << 30) + 160


@pytest.mark.parametrize(("available", "is_met"), [(99, True), (100, False), (101, False)])
def test_threshold_is_met_below_its_value(available: int, is_met: bool) -> None:
    assert bool(met([MEMORY], memory(available))) is is_met


def test_a_share_is_of_the_capacity_and_the_reclaim_comes_on_top() -> None:
    seen = {Signal.NODEFS: SignalObservation(12, 100)}
    assert met([DISK], seen) == ()
    assert met([DISK], seen, with_reclaim=True) == (DISK,)
    assert met([DISK], {}) == ()


def test_soft_thresholds_wait_for_their_grace_period() -> None:
    config = EvictionConfig((SOFT,))
    state = next_state(PressureState(), config, memory(150), 0)
    assert state.met == ()
    assert conditions(state, config, 0) == {PressureCondition.MEMORY}
    state = next_state(state, config, memory(150), 59)
    assert state.met == ()
    assert next_state(state, config, memory(150), 60).met == (SOFT,)
    again = next_state(next_state(state, config, memory(300), 60), config, memory(150), 70)
    assert again.met == ()


def test_threshold_stays_met_until_the_minimum_reclaim() -> None:
    config = EvictionConfig((DISK,), transition=0)
    state = next_state(PressureState(), config, {Signal.NODEFS: SignalObservation(9, 100)}, 0)
    state = next_state(state, config, {Signal.NODEFS: SignalObservation(12, 100)}, 10)
    assert state.met == (DISK,)
    state = next_state(state, config, {Signal.NODEFS: SignalObservation(15, 100)}, 20)
    assert state.met == ()
    assert next_state(state, config, {Signal.NODEFS: SignalObservation(12, 100)}, 30).met == ()


@pytest.mark.parametrize("begun", [0, 1000])
def test_conditions_stay_for_the_transition_period(begun: int) -> None:
    config = EvictionConfig((MEMORY,), transition=300)
    state = next_state(PressureState(), config, memory(50), begun)
    state = next_state(state, config, memory(500), begun + 10)
    assert conditions(state, config, begun + 299) == {PressureCondition.MEMORY}
    assert conditions(state, config, begun + 300) == frozenset()


def test_memory_is_the_most_urgent() -> None:
    config = EvictionConfig((DISK, MEMORY))
    seen = memory(50) | {Signal.NODEFS: SignalObservation(1, 100)}
    assert next_state(PressureState(), config, seen, 0).met == (MEMORY, DISK)


@given(st.lists(st.integers(0, 300), min_size=1, max_size=20))
def test_a_hard_threshold_is_acted_upon_at_once_and_never_for_nothing(available: list[int]) -> None:
    config, state = EvictionConfig((MEMORY,)), PressureState()
    for time, mi in enumerate(available):
        state = next_state(state, config, memory(mi), float(time))
        assert bool(state.met) is (mi < 100)


def test_pods_are_evicted_by_excess_priority_and_use() -> None:
    pods = [
        make_pod("modest", requests={"memory": "100Mi"}),
        make_pod("greedy", requests={"memory": "10Mi"}),
        make_pod("greedier", requests={"memory": "10Mi"}),
        make_pod("important", {"priority": 10}, requests={"memory": "10Mi"}),
        make_pod("unknown"),
    ]
    uses = {
        PodUID("modest"): PodUse(memory=90 * MI),
        PodUID("greedy"): PodUse(memory=20 * MI),
        PodUID("greedier"): PodUse(memory=30 * MI),
        PodUID("important"): PodUse(memory=500 * MI),
    }
    order = [pod.metadata.name for pod in ranked(pods, uses, Resource.MEMORY)]
    assert order == ["unknown", "greedier", "greedy", "important", "modest"]


@pytest.mark.parametrize(("resource", "first"), [(Resource.STORAGE, "a"), (Resource.INODES, "b"), (Resource.PIDS, "c")])
def test_each_resource_has_its_measure(resource: Resource, first: str) -> None:
    uses = {
        PodUID("a"): PodUse(containers={"c": ContainerUse(rootfs=DiskUse(9, 1))}, processes=1),
        PodUID("b"): PodUse(containers={"c": ContainerUse(rootfs=DiskUse(1, 9))}, processes=1),
        PodUID("c"): PodUse(containers={"c": ContainerUse(rootfs=DiskUse(1, 1))}, processes=9),
    }
    assert ranked([make_pod(name) for name in "abc"], uses, resource)[0].metadata.name == first


def test_condition_without_a_transition_period_lasts_one_check() -> None:
    config = EvictionConfig((MEMORY,), transition=0)
    state = next_state(PressureState(), config, memory(50), 5)
    assert conditions(state, config, 5) == {PressureCondition.MEMORY}
    assert conditions(next_state(state, config, memory(150), 6), config, 6) == frozenset()


def message(pod: Pod, use: PodUse | None, threshold: Threshold, observed: SignalObservation | None) -> str:
    return reported(pod, use, threshold, observed)[0]


def test_eviction_message_names_resource_threshold_and_containers() -> None:
    pod = make_pod("web", requests={"memory": "10Mi"})
    use = PodUse(memory=30 * MI, containers={"c": ContainerUse(memory=30 * MI), "other": ContainerUse(memory=1)})
    assert message(pod, use, MEMORY, SignalObservation(50 * MI, 1000 * MI)) == (
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. "
        "Container c was using 30Mi, request is 10Mi, has larger consumption of memory. "
    )
    assert message(pod, None, MEMORY, None) == "The node was low on resource: memory. "
    inodes = Threshold(Signal.NODEFS_INODES, Amount(share=0.05))
    assert message(pod, PodUse(), inodes, SignalObservation(10, 1000)) == (
        "The node was low on resource: inodes. Threshold quantity: 50, available: 10. "
    )


def test_message_names_the_request_of_the_pod_as_a_whole() -> None:
    pod = make_pod("web", {"resources": {"requests": {"memory": "20Mi"}}})
    assert message(pod, PodUse(memory=30 * MI), MEMORY, None) == (
        "The node was low on resource: memory. "
        "Pod web was using 30Mi, request is 20Mi, has larger consumption of memory. "
    )


def test_annotations_of_an_eviction_have_the_keys_of_upstream() -> None:
    """Upstream's eviction specs look for these keys."""
    pod = make_pod("web", {"resources": {"requests": {"memory": "20Mi"}}}, requests={"memory": "10Mi"})
    use = PodUse(memory=40 * MI, containers={"c": ContainerUse(memory=30 * MI)})
    assert reported(pod, use, MEMORY, None)[1] == {
        "offending_pod": "web",
        "offending_pod_usage": "40Mi",
        "offending_containers": "c",
        "offending_containers_usage": "30Mi",
        "starved_resource": "memory",
    }
    nothing = {"offending_containers": "", "offending_containers_usage": "", "starved_resource": "ephemeral-storage"}
    assert reported(pod, PodUse(), DISK, None)[1] == nothing
    assert reported(pod, None, MEMORY, None)[1] == {}


def test_message_about_storage_needs_layer_and_logs() -> None:
    pod = make_pod("web", requests={"ephemeral-storage": "1Mi"})
    whole = ContainerUse(rootfs=DiskUse(MI), logs=DiskUse(MI))
    text = "Container c was using 2Mi, request is 1Mi, has larger consumption of ephemeral-storage. "
    assert message(pod, PodUse(containers={"c": whole}), DISK, None).endswith(text)
    assert "Container" not in message(pod, PodUse(containers={"c": ContainerUse(rootfs=DiskUse(3 * MI))}), DISK, None)


def test_priority_decides_before_the_number_of_processes() -> None:
    pods = [make_pod("few", {"priority": 1}), make_pod("many", {"priority": 2}), make_pod("new", {"priority": 2})]
    uses = {PodUID("few"): PodUse(processes=1), PodUID("many"): PodUse(processes=1000)}
    assert [pod.metadata.name for pod in ranked(pods, uses, Resource.PIDS)] == ["few", "new", "many"]


def test_layer_on_a_disk_of_its_own_does_not_count_for_the_limit_of_a_container() -> None:
    use = PodUse(containers={"c": ContainerUse(logs=DiskUse(MI), rootfs=DiskUse(2 * MI))})
    assert exceeded(LIMITED, use, Disks(own_images=True)) is None


EMPTY_DIR = {"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}, {"name": "w", "emptyDir": {}}]}
LIMITED = make_pod("l", limits={"ephemeral-storage": "2Mi"})


@pytest.mark.parametrize(
    ("pod", "use", "text"),
    [
        (make_pod("p"), PodUse(disk=1 << 40), None),
        (make_pod("p", EMPTY_DIR), PodUse(volumes={"v": DiskUse(MI), "w": DiskUse(1 << 40)}), None),
        (
            make_pod("p", EMPTY_DIR),
            PodUse(volumes={"v": DiskUse(MI + 1)}),
            'Usage of EmptyDir volume "v" exceeds the limit "1Mi". ',
        ),
        (LIMITED, PodUse(disk=2 * MI), None),
        (
            LIMITED,
            PodUse(disk=2 * MI + 1),
            "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. ",
        ),
        (
            LIMITED,
            PodUse(disk=MI, containers={"c": ContainerUse(logs=DiskUse(MI), rootfs=DiskUse(2 * MI))}),
            'Container c exceeded its local ephemeral storage limit "2Mi". ',
        ),
        (LIMITED, PodUse(containers={"c": ContainerUse()}), None),
    ],
)
def test_pod_beyond_its_disk_limits_is_evicted_with_a_message(pod: Pod, use: PodUse, text: str | None) -> None:
    found = exceeded(pod, use, Disks())
    assert (found.message if found else None) == text


def test_pod_has_limits_only_with_a_local_storage_limit() -> None:
    assert [has_limits(pod) for pod in (make_pod("p"), make_pod("p", EMPTY_DIR), LIMITED)] == [False, True, True]


def test_threshold_that_a_reload_has_replaced_holds_no_more() -> None:
    state = next_state(PressureState(), EvictionConfig((MEMORY,)), memory(90), 0)
    assert state.met == (MEMORY,)
    lower = EvictionConfig((Threshold(Signal.MEMORY, Amount(50 * MI)),))
    state = next_state(state, lower, memory(90), 10)
    assert (state.met, state.since) == ((), {})
