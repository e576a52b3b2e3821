"""``top`` for given answers of the local API."""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from pykubelet.cli.app import cli
from pykubelet.cli.commands.pods import top

MIB = 1 << 20


def used(nano_cores: int | None, memory: int) -> dict[str, Any]:
    cpu = {} if nano_cores is None else {"usageNanoCores": nano_cores}
    return {"cpu": cpu, "memory": {"workingSetBytes": memory, "availableBytes": 3 * memory}}


def pod(name: str, namespace: str, nano_cores: int | None, memory: int) -> dict[str, Any]:
    usage = used(nano_cores, memory)
    containers = [{"name": "app", **usage}]
    return {"podRef": {"name": name, "namespace": namespace}, **usage, "containers": containers}


SUMMARY = {
    "node": {
        "nodeName": "n1",
        **used(1_999_000_001, 100 * MIB),
        "systemContainers": [{"name": "kubelet", **used(0, MIB)}],
    },
    "pods": [pod("web-n1", "default", 250_000_000, 5 * MIB), pod("db-n1", "data", None, 64 * MIB)],
}


PODS = [
    {"metadata": {"name": f"{name}-n1", "namespace": space}, "spec": {"nodeName": "n1"}}
    for name, space in (("web", "default"), ("db", "data"), ("ended", "default"))
]


class FakeApi:
    def get(self, path: str, **_: object) -> object:
        if path == "/api/v1/pods":
            return {"items": PODS}
        assert path == "/pykubelet/v1/usage"
        return SUMMARY


@pytest.fixture(autouse=True)
def _api(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(top, "api_of", lambda _: FakeApi())


def run(*arguments: str) -> list[list[str]]:
    done = CliRunner().invoke(cli, ["top", *arguments])
    assert done.exit_code == 0, done.output
    return [line.split() for line in done.output.splitlines()]


def test_top_pods_prints_usage_of_each_pod() -> None:
    assert run("pods") == [
        ["NAMESPACE", "POD", "CPU(cores)", "MEMORY(bytes)"],
        ["default", "web-n1", "250m", "5Mi"],
        ["data", "db-n1", "<unknown>", "64Mi"],
    ]


def test_top_sorts_by_usage() -> None:
    assert [row[1] for row in run("po", "--sort-by", "memory")[1:]] == ["db-n1", "web-n1"]
    assert [row[1] for row in run("po", "--sort-by", "cpu")[1:]] == ["web-n1", "db-n1"]


def test_top_shows_only_the_namespace_or_name_requested() -> None:
    assert [row[1] for row in run("pods", "web")[1:]] == ["web-n1"]
    assert [row[1] for row in run("pods", "-n", "data")[1:]] == ["db-n1"]


@pytest.mark.parametrize(
    ("name", "problem"),
    [("wbe", "pod 'wbe' not found; did you mean web?"), ("ended", "pod ended-n1 has no measurements")],
)
def test_top_of_a_pod_that_is_missing_or_has_ended_fails(name: str, problem: str) -> None:
    done = CliRunner().invoke(cli, ["top", "pods", name])
    assert done.exit_code != 0
    assert problem in str(done.exception)


def test_top_containers_prints_usage_of_each_container() -> None:
    assert run("pods", "web", "--containers")[1] == ["default", "web-n1", "app", "250m", "5Mi"]


def test_top_node_prints_usage_of_the_node() -> None:
    assert run("node") == [
        ["NAME", "CPU(cores)", "MEMORY(bytes)", "MEMORY(%)"],
        ["n1", "2000m", "100Mi", "25%"],
        ["kubelet", "0m", "1Mi"],
    ]


def test_top_as_json_has_the_form_of_the_metrics_api() -> None:
    done = CliRunner().invoke(cli, ["top", "pods", "-A", "-o", "json"])
    found = json.loads(done.stdout)
    assert (found["kind"], found["apiVersion"]) == ("PodMetricsList", "metrics.k8s.io/v1beta1")
    web, db = found["items"]
    assert (web["kind"], web["metadata"]["name"]) == ("PodMetrics", "web-n1")
    assert web["containers"] == [{"name": "app", "usage": {"cpu": "250000000n", "memory": "5120Ki"}}]
    assert "cpu" not in db["containers"][0]["usage"]
    node = json.loads(CliRunner().invoke(cli, ["top", "node", "-o", "json"]).stdout)["items"]
    assert [(each["kind"], each["metadata"]["name"]) for each in node] == [("NodeMetrics", "n1")]


def test_top_without_headings() -> None:
    assert [row[1] for row in run("pods", "--no-headers")] == ["web-n1", "db-n1"]
