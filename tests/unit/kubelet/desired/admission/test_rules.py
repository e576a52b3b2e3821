"""The rules of admission, one table each."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pykubelet.kubelet.desired.admission.admission_types import HostPort, Needs, NodeProperties
from pykubelet.kubelet.desired.admission.plan.fit import Shortage, needs_of, shortages
from pykubelet.kubelet.desired.admission.plan.preemption import may_preempt, victims
from pykubelet.kubelet.desired.admission.plan.rules import decide
from pykubelet.kubelet.types.admission import ADMITTED, AdmissionVerdict
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.resources.pod_requests import Amounts, amounts
from pykubelet.kubelet.types.resources.qos import QosClass
from pykubelet.models.core_v1 import Pod, Taint
from pykubelet.models.node_match import matches_node, untolerated
from tests.unit.kubelet.desired.admission.build import LABELS, NODE, make_pod, static


def judge(
    pod: Pod, others: Sequence[Pod] = (), node: NodeProperties = NODE, sysctls: str | None = None
) -> AdmissionVerdict:
    return decide(pod, needs_of(pod), [needs_of(other) for other in others], node, sysctls)


def test_an_ordinary_pod_is_admitted() -> None:
    assert judge(make_pod(requests={"cpu": "2", "memory": "1Gi"})) == ADMITTED


@pytest.mark.parametrize(
    ("pod", "reason", "message"),
    [
        (
            make_pod(meta={"labels": {"kubernetes.io/os": "windows"}}),
            "PodOSSelectorNodeLabelDoesNotMatch",
            "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
        ),
        (
            make_pod(os={"name": "windows"}),
            "PodOSNotSupported",
            "Failed to admit pod as the OS field doesn't match node OS",
        ),
        (
            make_pod(requests={"cpu": "2500m"}),
            "OutOfcpu",
            "Node didn't have enough resource: cpu, requested: 2500, used: 0, capacity: 2000",
        ),
        (
            make_pod(requests={"memory": "2Gi"}),
            "OutOfmemory",
            "Node didn't have enough resource: memory, requested: 2147483648, used: 0, capacity: 1073741824",
        ),
        (
            make_pod(requests={"ephemeral-storage": "11Gi"}),
            "OutOfephemeral-storage",
            "Node didn't have enough resource: ephemeral-storage, requested: 11811160064, used: 0, "
            "capacity: 10737418240",
        ),
        (
            make_pod(requests={"example.com/gpu": "2"}),
            "OutOfexample.com/gpu",
            "Node didn't have enough resource: example.com/gpu, requested: 2, used: 0, capacity: 1",
        ),
        (
            make_pod(requests={"hugepages-2Mi": "4Mi", "memory": "1Mi"}),
            "OutOfhugepages-2Mi",
            "Node didn't have enough resource: hugepages-2Mi, requested: 4194304, used: 0, capacity: 0",
        ),
        (
            make_pod(nodeSelector={"disk": "hdd"}),
            "NodeAffinity",
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
        ),
        (
            make_pod(nodeName="n2"),
            "NodeName",
            "Predicate NodeName failed: node(s) didn't match the requested node name",
        ),
        (
            make_pod(securityContext={"appArmorProfile": {"type": "RuntimeDefault"}}),
            "AppArmor",
            "Cannot enforce AppArmor: AppArmor is not enabled on the host",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)
def test_rejected_pod_has_reason_and_message_of_its_rule(pod: Pod, reason: str, message: str) -> None:
    assert judge(pod) == AdmissionVerdict(reason, message)


def test_sysctls_come_first() -> None:
    pod = make_pod(os={"name": "windows"})
    assert judge(pod, sysctls='forbidden sysctl: "kernel.x" not allowlisted') == AdmissionVerdict(
        "SysctlForbidden", 'forbidden sysctl: "kernel.x" not allowlisted'
    )


@pytest.mark.parametrize(("known", "reason"), [(True, ""), (None, ""), (False, "SupplementalGroupsPolicyNotSupported")])
def test_the_strict_policy_needs_a_runtime_that_knows_it(known: bool | None, reason: str) -> None:
    node = NodeProperties("n1", strict_groups=known)
    assert judge(make_pod(securityContext={"supplementalGroupsPolicy": "Strict"}), node=node).reason == reason
    assert judge(make_pod(securityContext={"supplementalGroupsPolicy": "Merge"}), node=node).admitted


def test_too_many_pods() -> None:
    others = [make_pod(name) for name in "abc"]
    assert judge(make_pod(), others) == AdmissionVerdict(
        "OutOfpods", "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3"
    )
    assert judge(make_pod(), others[:2]).admitted


def test_resources_of_others_count_and_resources_come_before_affinity() -> None:
    others = [make_pod("a", {"cpu": "1500m"})]
    pod = make_pod(requests={"cpu": "600m"}, nodeSelector={"disk": "hdd"})
    assert judge(pod, others).message.endswith("requested: 600, used: 1500, capacity: 2000")


def test_pod_without_requests_always_fits() -> None:
    assert judge(make_pod(), [make_pod("a", {"cpu": "7"})]).admitted


def test_resources_that_only_the_cluster_has_are_ignored() -> None:
    assert judge(make_pod(requests={"other.com/thing": "5"})).admitted


@pytest.mark.parametrize(
    ("mine", "theirs", "taken"),
    [
        ({"hostPort": 80}, {"hostPort": 80}, True),
        ({"hostPort": 80}, {"hostPort": 81}, False),
        ({"hostPort": 80, "protocol": "UDP"}, {"hostPort": 80}, False),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.2"}, False),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "0.0.0.0"}, True),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80}, True),
        ({}, {"hostPort": 80}, False),
    ],
)
def test_pod_with_a_taken_host_port_is_rejected(
    mine: dict[str, object], theirs: dict[str, object], taken: bool
) -> None:
    pods = [make_pod(uid, container={"ports": [{"containerPort": 1, **p}]}) for uid, p in (("a", mine), ("b", theirs))]
    assert judge(pods[0], [pods[1]]).reason == ("NodePorts" if taken else "")


def test_ports_of_sidecars_count_and_those_of_init_containers_do_not() -> None:
    port = {"ports": [{"containerPort": 1, "hostPort": 80}]}
    side = make_pod(initContainers=[{"name": "s", "image": "i", "restartPolicy": "Always", **port}])
    assert needs_of(side).ports == (HostPort("", "TCP", 80),)
    assert needs_of(make_pod(initContainers=[{"name": "s", "image": "i", **port}])).ports == ()


NO_EXECUTE = Taint(key="k", value="v", effect="NoExecute")


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "k", "operator": "Exists", "effect": "NoExecute"}, True),
        ({"key": "k", "operator": "Equal", "value": "v"}, True),
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "value": "w"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "k", "operator": "Exists", "effect": "NoSchedule"}, False),
        ({"value": "v"}, False),
        ({"key": "k", "operator": "Gt", "value": "1"}, False),
    ],
)
def test_pod_without_a_toleration_of_a_taint_is_rejected(toleration: dict[str, str], tolerates: bool) -> None:
    pod = make_pod(tolerations=[toleration])
    assert (untolerated(pod, [NO_EXECUTE]) is None) is tolerates
    node = NodeProperties("n1", taints=(NO_EXECUTE,))
    assert judge(pod, node=node).reason == ("" if tolerates else "TaintToleration")


def test_taints_concern_neither_static_pods_nor_other_effects() -> None:
    assert judge(static(), node=NodeProperties("n1", taints=(NO_EXECUTE,))).admitted
    assert judge(make_pod(), node=NodeProperties("n1", taints=(Taint(key="k", effect="NoSchedule"),))).admitted


def expression(key: str, operator: str, *values: str) -> dict[str, object]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("terms", "matches"),
    [
        ([], False),
        ([{}], False),
        ([{"matchExpressions": [expression("disk", "In", "ssd", "nvme")]}], True),
        ([{"matchExpressions": [expression("disk", "In", "hdd")]}], False),
        ([{"matchExpressions": [expression("absent", "In", "x")]}], False),
        ([{"matchExpressions": [expression("absent", "NotIn", "x")]}], True),
        ([{"matchExpressions": [expression("disk", "NotIn", "ssd")]}], False),
        ([{"matchExpressions": [expression("disk", "Exists"), expression("absent", "DoesNotExist")]}], True),
        ([{"matchExpressions": [expression("disk", "DoesNotExist")]}], False),
        ([{"matchExpressions": [expression("cores", "Gt", "3"), expression("cores", "Lt", "5")]}], True),
        ([{"matchExpressions": [expression("cores", "Gt", "4")]}], False),
        ([{"matchExpressions": [expression("disk", "Gt", "3")]}], False),
        ([{"matchExpressions": [expression("cores", "Gt", "1", "2")]}], False),
        ([{"matchExpressions": [expression("disk", "Like", "ssd")]}], False),
        ([{"matchFields": [expression("metadata.name", "In", "n1")]}], True),
        ([{"matchFields": [expression("metadata.name", "NotIn", "n1")]}], False),
        ([{"matchFields": [expression("metadata.uid", "NotIn", "n1")]}], False),
        (
            [
                {"matchExpressions": [expression("disk", "In", "hdd")]},
                {"matchExpressions": [expression("disk", "Exists")]},
            ],
            True,
        ),
    ],
)
def test_required_node_affinity_matches_one_of_its_terms(terms: list[dict[str, object]], matches: bool) -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    assert matches_node(make_pod(affinity={"nodeAffinity": required}), "n1", LABELS) is matches


def test_selector_and_affinity_both_have_to_hold() -> None:
    terms = [{"matchExpressions": [expression("disk", "Exists")]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    assert matches_node(make_pod(affinity=affinity, nodeSelector={"disk": "ssd"}), "n1", LABELS)
    assert not matches_node(make_pod(affinity=affinity, nodeSelector={"disk": "hdd"}), "n1", LABELS)


@pytest.mark.parametrize(
    ("pod", "confined"),
    [
        (make_pod(), False),
        (make_pod(securityContext={"appArmorProfile": {"type": "Unconfined"}}), False),
        (
            make_pod(
                container={"securityContext": {"appArmorProfile": {"type": "Localhost", "localhostProfile": "p"}}}
            ),
            True,
        ),
        (make_pod(meta={"annotations": {"container.apparmor.security.beta.kubernetes.io/c": "runtime/default"}}), True),
        (make_pod(meta={"annotations": {"container.apparmor.security.beta.kubernetes.io/c": "unconfined"}}), False),
    ],
)
def test_confined_pod_needs_a_node_with_apparmor(pod: Pod, confined: bool) -> None:
    assert judge(pod).reason == ("AppArmor" if confined else "")
    assert judge(pod, node=NodeProperties("n1", app_armor=True)).admitted


# Critical pods


def test_static_pod_preempts_others() -> None:
    others = [make_pod("small", {"cpu": "500m"}), make_pod("big", {"cpu": "1500m"})]
    assert judge(static("new", {"cpu": "1"}), others) == AdmissionVerdict(
        preempts=(PodUID("big"),), preempted_for="cpu"
    )


def test_node_that_shuts_down_admits_no_pod_and_preempts_none() -> None:
    node = replace(NODE, shutting_down=True)
    rejected = AdmissionVerdict("NodeShutdown", "Pod was rejected as the node is shutting down.")
    assert judge(make_pod("a"), node=node) == rejected
    assert judge(static("new", {"cpu": "1"}), [make_pod("big", {"cpu": "1500m"})], node) == rejected
    assert judge(make_pod("a"), node=node, sysctls="no").reason == "SysctlForbidden"


def test_static_pods_do_not_preempt_each_other() -> None:
    verdict = judge(static("new", {"cpu": "1"}), [static("a", {"cpu": "1500m"})])
    assert verdict.reason == "UnexpectedAdmissionError"
    assert verdict.message == (
        "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods "
        "to preempt: no set of running pods found to reclaim resources: [(res: cpu, q: 500), ]"
    )


def test_critical_pod_that_does_not_match_preempts_no_pod() -> None:
    pod = static("new", {"cpu": "1"}, nodeSelector={"disk": "hdd"})
    assert judge(pod, [make_pod("a", {"cpu": "1500m"})]) == AdmissionVerdict(
        "NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
    )


def test_pod_rejected_by_a_later_rule_preempts_no_pod() -> None:
    pod = static("new", {"cpu": "1"}, securityContext={"appArmorProfile": {"type": "RuntimeDefault"}})
    verdict = judge(pod, [make_pod("a", {"cpu": "1500m"})])
    assert (verdict.reason, verdict.preempts) == ("AppArmor", ())


def needs(uid: str, qos: QosClass, cpu: str, *, critical: bool = False, priority: int | None = None) -> Needs:
    return Needs(PodUID(uid), amounts({"cpu": cpu}), (), qos, critical, priority)


CRITICAL = needs("new", QosClass.BURSTABLE, "1", critical=True)


@pytest.mark.parametrize(
    ("mine", "theirs", "may"),
    [
        ((True, None), (False, None), True),
        ((True, None), (True, None), False),
        ((False, 5), (False, 4), True),
        ((False, 5), (False, 5), False),
        ((False, None), (False, 1), False),
        ((True, 9), (True, 1), True),
    ],
)
def test_preemption_is_decided_by_criticality_and_priority(
    mine: tuple[bool, int | None], theirs: tuple[bool, int | None], may: bool
) -> None:
    a = needs("a", QosClass.BURSTABLE, "1", critical=mine[0], priority=mine[1])
    b = needs("b", QosClass.BURSTABLE, "1", critical=theirs[0], priority=theirs[1])
    assert may_preempt(a, b) is may


def test_guaranteed_pods_are_preempted_last() -> None:
    pods = [needs("g", QosClass.GUARANTEED, "1"), needs("b", QosClass.BURSTABLE, "1")]
    assert victims(CRITICAL, pods, [Shortage("cpu", 1000, 1000, 1000)]) == (pods[1],)
    assert victims(CRITICAL, pods, [Shortage("cpu", 2000, 2000, 2000)]) == (pods[1], pods[0])


@pytest.mark.parametrize("lower", [QosClass.BEST_EFFORT, QosClass.BURSTABLE])
def test_pods_of_a_lower_class_stay_when_those_of_a_higher_one_suffice(lower: QosClass) -> None:
    pods = [needs("low", lower, "500m"), needs("high", QosClass.GUARANTEED, "1")]
    assert victims(CRITICAL, pods, [Shortage("cpu", 1000, 1000, 1000)]) == (pods[1],)
    pods = [needs("low", QosClass.BEST_EFFORT, "500m"), needs("high", QosClass.BURSTABLE, "1")]
    assert victims(CRITICAL, pods, [Shortage("cpu", 1000, 1000, 1000)]) == (pods[1],)


def test_pod_that_lacks_much_of_one_resource_is_nearer_than_one_that_lacks_a_lot_of_two() -> None:
    """Distances are sums of squares; of two alike goes the one that asks for less."""
    asked = (("one", "200m", "1000"), ("two", "400m", "400"), ("rest", "400m", "0"))
    pods = [
        replace(needs(uid, QosClass.BURSTABLE, cpu), requests=amounts({"cpu": cpu, "memory": memory}))
        for uid, cpu, memory in asked
    ]
    short = [Shortage("cpu", 1000, 1000, 1000), Shortage("memory", 1000, 1000, 1000)]
    found = victims(CRITICAL, pods, short)
    assert [each.uid for each in found if not isinstance(each, str)] == ["one", "rest", "two"]


def test_best_effort_pods_are_preempted_for_the_number_of_pods() -> None:
    pods = [needs("b", QosClass.BURSTABLE, "1"), needs("e", QosClass.BEST_EFFORT, "0")]
    assert victims(CRITICAL, pods, [Shortage("pods", 1, 110, 110)]) == (pods[1],)


@given(
    st.lists(st.tuples(st.sampled_from(list(QosClass)), st.integers(0, 3000)), max_size=8),
    st.integers(1, 6000),
)
def test_victims_free_enough_and_each_is_needed(pods: list[tuple[QosClass, int]], missing: int) -> None:
    others = [needs(str(i), qos, f"{milli}m") for i, (qos, milli) in enumerate(pods)]
    found = victims(CRITICAL, others, [Shortage("cpu", missing, 1000, 1000)])
    total = sum(other.requests.cpu for other in others)
    assert isinstance(found, str) is (total < missing)
    if not isinstance(found, str):
        given_back = [each.requests.cpu for each in found]
        assert sum(given_back) >= missing
        assert len({each.uid for each in found}) == len(found)
        assert all(amount > 0 for amount in given_back)


def test_all_shortages_are_reported() -> None:
    pod = make_pod(requests={"cpu": "3", "memory": "2Gi"})
    found = shortages(needs_of(pod), [needs_of(make_pod("a"))] * 3, NODE)
    assert [each.name for each in found] == ["pods", "cpu", "memory"]
    assert found[1].missing == 1000
    assert Amounts().cpu == 0


TOLERANT = [{"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("pod", "conditions", "admitted"),
    [
        (make_pod(), ("MemoryPressure",), False),
        (make_pod(tolerations=TOLERANT), ("MemoryPressure",), True),
        (make_pod(requests={"cpu": "1"}), ("MemoryPressure",), True),
        (make_pod(requests={"cpu": "1"}), ("DiskPressure",), False),
        (make_pod(tolerations=TOLERANT), ("MemoryPressure", "DiskPressure"), False),
        (make_pod(priority=2_000_000_000), ("DiskPressure",), True),
        (static(), ("MemoryPressure", "DiskPressure"), True),
    ],
)
def test_node_under_pressure_admits_by_class_and_toleration(
    pod: Pod, conditions: tuple[str, ...], admitted: bool
) -> None:
    verdict = judge(pod, node=replace(NODE, conditions=conditions))
    assert verdict.admitted is admitted
    if not admitted:
        assert verdict == AdmissionVerdict("Evicted", f"The node had condition: [{' '.join(conditions)}]. ")
