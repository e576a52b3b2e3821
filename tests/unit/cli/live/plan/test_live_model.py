"""Data that the live view collects of an agent."""

from datetime import UTC, datetime
from typing import Any

from pykubelet.cli.live.plan.figures import chart, cores, memory, short_age
from pykubelet.cli.live.plan.live_model import SAMPLES, LiveModel, Sample

MIB = 1 << 20


def pod(name: str, namespace: str = "default", **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{name}-n1", "namespace": namespace, "uid": name},
        "spec": {
            "nodeName": "n1",
            "initContainers": [{"name": "setup", "image": "i"}],
            "containers": [{"name": "app", "image": "localhost/app:1"}],
        },
        "status": {"phase": "Running", **status},
    }


def event(name: str, reason: str, second: int, message: str = "m", kind: str = "Pod") -> dict[str, Any]:
    moment = datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC).isoformat()
    subject = {"kind": kind, "namespace": "default", "name": f"{name}-n1"}
    texts = {"reason": reason, "message": message, "type": "Warning" if reason == "BackOff" else "Normal"}
    return {"metadata": {}, "involvedObject": subject, "lastTimestamp": moment, **texts}


def usage(nano: int | None, *names: str) -> dict[str, Any]:
    used = {"cpu": {} if nano is None else {"usageNanoCores": nano}, "memory": {"workingSetBytes": MIB}}
    pods = [
        {"podRef": {"namespace": "default", "name": f"{name}-n1"}, **used, "containers": [{"name": "app", **used}]}
        for name in names
    ]
    return {"node": {"nodeName": "n1", "memory": {"workingSetBytes": MIB, "availableBytes": 3 * MIB}}, "pods": pods}


def test_pods_are_listed_changed_and_deleted() -> None:
    model = LiveModel()
    model.replace_pods([pod("web"), pod("db", "data")])
    assert [(each.key, each.name) for each in model.pods] == [
        (("data", "db-n1"), "db"),
        (("default", "web-n1"), "web"),
    ]
    assert model.has_namespaces
    model.change_pod("MODIFIED", pod("web", phase="Failed", reason="Evicted"))
    model.change_pod("DELETED", pod("db", "data"))
    (web,) = model.pods
    assert (web.status, web.is_settled, model.has_namespaces) == ("Evicted", False, False)
    model.replace_pods([])
    assert model.pods == []


def test_only_chosen_pods_are_kept() -> None:
    model = LiveModel("default", "web")
    model.replace_pods([pod("web"), pod("webber"), pod("web", "data")])
    model.change_pod("ADDED", pod("db"))
    assert [each.name for each in model.pods] == ["web"]


def test_containers_have_their_state() -> None:
    waiting = {"waiting": {"reason": "ImagePullBackOff"}}
    statuses = [{"name": "app", "ready": False, "restartCount": 3, "state": waiting}]
    model = LiveModel()
    model.replace_pods([pod("web", containerStatuses=statuses)])
    (web,) = model.pods
    assert [(each.name, each.state, each.restarts) for each in web.containers] == [
        ("setup", "Waiting", 0),
        ("app", "ImagePullBackOff", 3),
    ]
    assert (web.init_containers, web.restarts) == (1, 3)


def test_samples_are_bounded_and_have_gaps() -> None:
    model = LiveModel()
    model.replace_pods([pod("web"), pod("db")])
    for number in range(SAMPLES + 5):
        model.add_usage(usage(number, "web"))
    web, db = sorted(model.pods, key=lambda each: each.name, reverse=True)
    assert [each.cpu_nano_cores for each in web.samples] == list(range(5, SAMPLES + 5))
    assert set(db.samples) == {Sample()}
    assert web.containers_now == {"app": Sample(SAMPLES + 4, MIB)}
    assert (model.node.name, model.node.capacity_bytes, len(model.node.samples)) == ("n1", 4 * MIB, SAMPLES)


def test_pod_without_a_cgroup_has_the_sum_of_its_containers() -> None:
    model = LiveModel()
    model.replace_pods([pod("web")])
    summary = usage(5, "web")
    del summary["pods"][0]["cpu"], summary["pods"][0]["memory"]
    summary["pods"][0]["containers"] *= 2
    model.add_usage(summary)
    assert model.pods[0].now == Sample(10, 2 * MIB)


def test_last_events_of_a_pod_the_newest_first_each_once() -> None:
    model = LiveModel()
    model.replace_pods([pod("web")])
    model.replace_events([event("web", "Started", 3), event("web", "Pulled", 1), event("web", "Node", 9, kind="Node")])
    model.add_event(event("web", "BackOff", 5, "restarting\n\x1b[2J  failed"))
    model.add_event(event("web", "Pulled", 7))
    seen = model.pods[0].events
    assert [each.reason for each in seen] == ["Pulled", "BackOff", "Started"]
    assert (seen[1].is_warning, seen[1].message) == (True, "restarting \\x1b[2J failed")
    for number in range(50):
        model.add_event(event("web", f"R{number}", 10))
    assert len(model.pods[0].events) == 6


def test_events_say_which_container_they_are_about() -> None:
    model = LiveModel()
    model.replace_pods([pod("web")])
    for container in ("app", "sidecar"):
        about = event("web", "Started", 1, "Container started")
        about["involvedObject"]["fieldPath"] = f"spec.containers{{{container}}}"
        model.add_event(about)
    assert [each.message for each in model.pods[0].events] == ["sidecar: Container started", "app: Container started"]


def test_events_of_the_same_second_are_in_the_order_of_their_versions() -> None:
    events = [event("web", reason, 1) for reason in ("BackOff", "Started", "Pulled")]
    for each, version in zip(events, ("12", "9", "8"), strict=True):
        each["metadata"]["resourceVersion"] = version
    model = LiveModel()
    model.replace_pods([pod("web")])
    model.replace_events(events)
    assert [each.reason for each in model.pods[0].events] == ["BackOff", "Started", "Pulled"]


def test_hostile_names_are_escaped() -> None:
    hostile = pod("a\x1b[2Jb\u202e")
    model = LiveModel()
    model.replace_pods([hostile])
    assert model.pods[0].name == "a\\x1b[2Jb\\u202e"


def test_chart_scales_from_zero_to_the_largest_value() -> None:
    assert chart([0, 50, 100], 3, least=1) == "▁▄▇"
    assert chart([1, None, 2], 5, least=100) == "  ▁ ▁"
    assert chart([1, 2, 3, 4], 2, least=4) == "▆▇"
    assert chart([], 3, least=1) == "   "
    assert chart([5], 0, least=1) == ""
    assert chart([0, 8], 2, least=1, ascii_only=True) == "_#"


def test_figures_are_short() -> None:
    assert [cores(each) for each in (None, 0, 1, 12_000_000, 12_345_000_000)] == ["-", "0m", "1m", "12m", "12.3"]
    sizes = (None, 0, 31 * MIB, 1023 * MIB, 1229 * MIB, 64 << 30, 5 << 40)
    assert [memory(each) for each in sizes] == ["-", "0Ki", "31Mi", "1.0Gi", "1.2Gi", "64Gi", "5.0Ti"]
    assert [short_age(each) for each in (-1, 59, 60, 7200, 47 * 3600, 49 * 3600)] == [
        "0s",
        "59s",
        "1m",
        "2h",
        "47h",
        "2d",
    ]
