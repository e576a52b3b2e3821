"""Admission as the sync loop uses it: verdicts that stay, pods of an earlier agent, events and metrics."""

import pytest

from pykubelet.kubelet.desired.admission import admission_manager
from pykubelet.kubelet.desired.admission.admission_types import Needs
from pykubelet.kubelet.desired.admission.plan.fit import needs_of
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.models.core_v1 import Pod
from tests.unit.kubelet.desired.admission.build import make_pod, static
from tests.unit.kubelet.desired.admission.fakes import AdmissionFakes

A, B = PodUID("a"), PodUID("b")
PORT = {"ports": [{"containerPort": 80, "hostPort": 80}]}


def one_cpu(uid: str) -> Pod:
    return make_pod(uid, {"cpu": "1"})


def test_rejection_is_reported_once_and_stays() -> None:
    fakes = AdmissionFakes(running=[one_cpu("a")])
    admission = fakes.admission()
    first = admission.admit(one_cpu("b"))
    fakes.running.clear()
    assert admission.admit(one_cpu("b")) is first
    assert first.reason == "OutOfcpu"
    assert fakes.reported == [f"b Warning OutOfcpu: {first.message}", "rejected OutOfcpu"]


def test_pod_listed_again_is_decided_again() -> None:
    fakes = AdmissionFakes(running=[one_cpu("a")])
    admission = fakes.admission()
    assert not admission.admit(one_cpu("b")).admitted
    admission.forget(B)
    fakes.running.clear()
    assert admission.admit(one_cpu("b")).admitted


def test_pod_admitted_by_an_earlier_run_stays_and_counts() -> None:
    fakes = AdmissionFakes(cpus="1")
    admission = fakes.admission()
    admission.admitted_before([A])
    big, other = make_pod("a", {"cpu": "5"}), one_cpu("b")
    assert admission.in_order([other, big]) == [big, other]
    verdict = admission.admit(big)
    assert (verdict.admitted, verdict.rule) == (True, "it was admitted before the agent was restarted")
    fakes.running.append(big)
    assert admission.admit(other).reason == "OutOfcpu"


def test_earlier_admission_ends_with_the_pod() -> None:
    admission = AdmissionFakes(cpus="0").admission()
    admission.admitted_before([A])
    admission.forget(A)
    assert admission.admit(one_cpu("a")).reason == "OutOfcpu"


def test_oldest_pods_are_admitted_first() -> None:
    admission = AdmissionFakes().admission()
    young = make_pod("young", meta={"creationTimestamp": "2026-01-02T00:00:00Z"})
    old = make_pod("old", meta={"creationTimestamp": "2026-01-01T00:00:00Z"})
    assert admission.in_order([young, old]) == [old, young]


def test_own_requests_of_a_pod_do_not_count_twice() -> None:
    fakes = AdmissionFakes(running=[one_cpu("a")])
    assert fakes.admission().admit(one_cpu("a")).admitted


def test_ending_pods_are_not_checked() -> None:
    admission = AdmissionFakes(cpus="0").admission()
    ending = admission.admit(make_pod("a", {"cpu": "1"}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}))
    assert (ending.admitted, ending.rule) == (True, "it is ending")
    mirror = make_pod("b", {"cpu": "1"}, {"annotations": {"kubernetes.io/config.mirror": "x"}})
    verdict = admission.admit(mirror)
    assert (verdict.admitted, verdict.rule) == (True, "it is the mirror of a static pod")


def test_preemption_is_reported_for_each_victim() -> None:
    fakes = AdmissionFakes(running=[one_cpu("a")])
    assert fakes.admission().admit(static("s", {"cpu": "1"})).preempts == (A,)
    assert fakes.reported == ["a Warning Preempting: Preempted in order to admit critical pod", "preempted for cpu"]


def test_malformed_request_is_a_rejection() -> None:
    fakes = AdmissionFakes()
    verdict = fakes.admission().admit(make_pod("a", {"cpu": "many"}))
    assert verdict.reason == "UnexpectedAdmissionError"
    assert "'many' is not a quantity" in verdict.message


def test_running_pod_with_a_malformed_request_rejects_no_other() -> None:
    fakes = AdmissionFakes(running=[make_pod("bad", {"cpu": "many"}, container=PORT), one_cpu("a")], cpus="2")
    admission = fakes.admission()
    assert admission.admit(one_cpu("b")).admitted
    assert admission.admit(make_pod("c", {"cpu": "1100m"})).reason == "OutOfcpu", "those of the others count"
    assert admission.admit(make_pod("d", container=PORT)).reason == "NodePorts", "and the host ports of the pod"


def test_running_pod_with_a_malformed_request_is_not_preempted() -> None:
    fakes = AdmissionFakes(running=[make_pod("bad", {"cpu": "many"}), one_cpu("a")], cpus="1")
    assert fakes.admission().admit(static("s", {"cpu": "1"})).preempts == (A,)


def test_rejected_pod_that_raises_keeps_no_other_from_being_admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes = AdmissionFakes(running=[static("a", {"cpu": "1"})])
    admission = fakes.admission()
    for pod in (static("b", {"cpu": "1"}), static("c", {"cpu": "1"})):
        assert not admission.admit(pod).admitted
    fakes.running.clear()

    def raises(pod: Pod) -> Needs:
        if pod.metadata.uid == B:
            raise ValueError("no error that anyone foresaw")
        return needs_of(pod)

    monkeypatch.setattr(admission_manager, "needs_of", raises)
    assert [pod.metadata.uid for pod in admission.reconsider()] == ["c"]
    monkeypatch.undo()
    assert [pod.metadata.uid for pod in admission.reconsider()] == ["b"], "it waits on"


def test_rejected_static_pods_are_admitted_when_others_are_removed() -> None:
    fakes = AdmissionFakes(running=[static("a", {"cpu": "1"})])
    admission = fakes.admission()
    for pod in (static("b", {"cpu": "1"}), static("c", {"cpu": "1"}), one_cpu("d")):
        assert not admission.admit(pod).admitted
    assert list(admission.reconsider()) == []
    fakes.running.clear()
    let_in = []
    for pod in admission.reconsider():
        let_in.append(pod.metadata.uid)
        fakes.running.append(pod)
    assert let_in == ["b"]
    assert admission.admit(static("b", {"cpu": "1"})).admitted
    admission.forget(PodUID("c"))
    fakes.running.clear()
    assert list(admission.reconsider()) == []


def test_a_pod_that_does_not_match_is_not_reconsidered() -> None:
    admission = AdmissionFakes().admission()
    assert admission.admit(static("a", nodeSelector={"disk": "ssd"})).reason == "NodeAffinity"
    assert list(admission.reconsider()) == []
