"""The kubelet API server as used by kubectl, through a real kube-apiserver, and by monitoring."""

import json
import re
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pykubelet.testing.agent import wait_for
from pykubelet.testing.envtest import ADMIN, EnvTest
from pykubelet.testing.kubeapi import Json
from pykubelet.testing.registry import Registry
from tests.cluster.cluster_node import NODE, Cluster, https_get
from tests.manifests import container, pod, serving

pytestmark = [pytest.mark.runtime]


@pytest.fixture(scope="module")
def node_config(apiserver: EnvTest) -> Json:
    return {"authentication": {"x509": {"clientCAFile": str(apiserver.home / "ca.crt")}}}


@dataclass
class Web:
    """HTTP requests to the API server or to the node."""

    apiserver: EnvTest
    cluster: Cluster

    def api(self, path: str) -> tuple[int, str]:
        """Send a request through the API server, as kubectl does."""
        context = ssl.create_default_context(cafile=str(self.apiserver.home / "ca.crt"))
        return https_get(("127.0.0.1", self.apiserver.port), path, context, self.apiserver.tokens[ADMIN])

    def node(self, path: str, token: str = "") -> tuple[int, str]:
        """Send a request directly to the node, as metrics-server and Prometheus do."""
        return self.cluster.ask(path, token)


@pytest.fixture(scope="module")
def web(apiserver: EnvTest, cluster: Cluster) -> Iterator[Web]:
    """The pod ``web``, and ``bounded``, which has a limit: both are there when usage is measured for the first time."""
    cluster.run(pod("web", container("main", serving("echo first; echo second"))))
    cluster.run(pod("bounded", container(resources={"limits": {"cpu": "200m"}})))
    for name in ("web", "bounded"):
        cluster.ready(name)
    yield Web(apiserver, cluster)
    for name in ("web", "bounded"):
        cluster.delete(name, grace=1)


def test_node_reports_its_kubelet_port(web: Web) -> None:
    _, text = web.api(f"/api/v1/nodes/{NODE}")
    assert json.loads(text)["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] == web.cluster.agent.node_port


def test_logs_come_through_the_api_server(web: Web) -> None:
    path = "/api/v1/namespaces/default/pods/web/log"
    wait_for(lambda: "second" in web.api(path)[1], 10.0, lambda: str(web.api(path)))
    assert web.api(path) == (200, "first\nsecond\n")
    assert web.api(f"{path}?tailLines=1") == (200, "second\n")
    status, text = web.api(f"{path}?previous=true")
    assert status == 400
    assert 'previous terminated container \\"main\\" in pod \\"web\\" not found' in text


def test_the_nodes_own_paths_come_through_the_api_servers_proxy(web: Web) -> None:
    base = f"/api/v1/nodes/{NODE}/proxy"
    assert web.api(f"{base}/healthz") == (200, "ok")
    status, text = web.api(f"{base}/stats/summary")
    assert status == 200
    (found,) = (p for p in json.loads(text)["pods"] if p["podRef"]["name"] == "web")
    assert found["memory"]["workingSetBytes"] > 0
    status, text = web.api(f"{base}/configz")
    assert json.loads(text)["kubeletconfig"]["port"] == web.cluster.agent.node_port


def test_metrics_are_served_to_authorized_monitoring_only(web: Web, apiserver: EnvTest) -> None:
    """The administrator's token is known only to the API server."""
    found: set[str] = set()
    for path in ("/metrics", "/metrics/cadvisor", "/metrics/resource", "/metrics/probes"):
        status, text = web.node(path, apiserver.tokens[ADMIN])
        assert status == 200, text
        families = {family.name for family in text_string_to_metric_families(text)}
        assert families, path
        found |= families
        if path == "/metrics":
            assert re.search(r"^kubelet_node_startup_duration_seconds [1-9]", text, re.MULTILINE)
    assert found >= {"rest_client_requests", "kubelet_pod_status_sync_duration_seconds", "kubelet_running_pods"}
    assert web.node("/metrics/resource")[0] == 401
    assert web.node("/metrics/resource", "not-a-token")[0] == 401


def test_node_pages_through_the_api_server_proxy(web: Web) -> None:
    base = f"/api/v1/nodes/{NODE}/proxy"
    shown = json.loads(web.api(f"{base}/runningpods/")[1])
    assert sorted((each["metadata"]["name"], each["spec"]["containers"][0]["name"]) for each in shown["items"]) == [
        ("bounded", "main"),
        ("web", "main"),
    ]
    assert "web" in {each["metadata"]["name"] for each in json.loads(web.api(f"{base}/pods")[1])["items"]}
    assert web.api(f"{base}/containerLogs/default/web/main?tailLines=1") == (200, "second\n")
    assert '<a href="' in web.api(f"{base}/logs/")[1]
    assert web.api(f"{base}/nowhere")[0] == 404
    assert "Binary version: v1." in web.api(f"{base}/statusz")[1]
    assert f"\nhostname-override={NODE}\n" in web.api(f"{base}/flagz")[1]
    assert "task sync-loop:" in web.api(f"{base}/debug/pprof/goroutine")[1]


def test_only_containers_with_a_quota_have_its_series(web: Web) -> None:
    """As with the Go kubelet: otherwise panels that divide throttled periods by all periods show NaN."""
    series: dict[str, set[str]] = {}

    def measured() -> bool:
        """Read the metrics; usage is measured every few seconds."""
        series.update({"web": set(), "bounded": set()})
        status, text = web.api(f"/api/v1/nodes/{NODE}/proxy/metrics/cadvisor")
        assert status == 200, text
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.labels.get("container") == "main" and sample.labels["pod"] in series:
                    series[sample.labels["pod"]].add(sample.name)
        return all(series.values())

    wait_for(measured, 20.0, web.cluster.agent.log_tail)
    usual = {"container_cpu_usage_seconds_total", "container_spec_cpu_shares"}
    only = {f"container_cpu_cfs_{name}_total" for name in ("periods", "throttled_periods", "throttled_seconds")}
    only.add("container_spec_cpu_quota")
    assert series["bounded"] >= usual | only and series["web"] >= usual
    assert not series["web"] & only


def test_log_requests_that_cannot_be_served_say_why_as_upstream(web: Web, tmp_path: Path) -> None:
    """Status and words are those that kubectl, dashboards and upstream's suites match."""
    logs = f"/api/v1/nodes/{NODE}/proxy/containerLogs/default/web/main"
    for option in ("tailLines=-1", "limitBytes=0", "sinceSeconds=0"):
        status, text = web.api(f"{logs}?{option}")
        assert status == 422, f"{option}: {status} {text}"
    assert web.api(f"{logs}?tailLines=many")[0] == 400
    cluster = web.cluster
    path = "/api/v1/namespaces/default/pods/imageless/log"
    wanted = 'container \\"main\\" in pod \\"imageless\\" is waiting to start: '
    reasons = [f"{wanted}{words}" for words in ("image can't be pulled", "trying and failing to pull image")]
    with Registry(tmp_path) as registry:
        cluster.run(pod("imageless", container(image=registry.reference("nothing"))))
        wait_for(lambda: any(each in web.api(path)[1] for each in reasons), 20.0, lambda: web.api(path)[1])
    assert web.api(path)[0] == 400
    cluster.delete("imageless", 1)


def test_client_without_rights_on_nodes_is_forbidden(web: Web, apiserver: EnvTest) -> None:
    status, text = web.node("/pods", apiserver.tokens["outsider"])
    assert (status, text) == (
        403,
        "Forbidden (user=outsider, verb=get, resource=nodes, subresource(s)=[pods proxy])\n",
    )


def test_client_with_one_subresource_can_use_only_that(web: Web, apiserver: EnvTest) -> None:
    """The role of docs/joining.md for monitoring."""
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "monitoring"}}
    rules = [{"apiGroups": [""], "resources": ["nodes/metrics", "nodes/stats"], "verbs": ["get"]}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "monitoring"}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "monitoring"}]
    api = web.cluster.api
    api.create(f"{rbac}/clusterroles", {**kind, "kind": "ClusterRole", "rules": rules})
    binding = {**kind, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": subjects}
    api.create(f"{rbac}/clusterrolebindings", binding)
    try:
        token = apiserver.tokens["monitoring"]
        # A denial is cached for half a minute, so no request is sent before the API server has the role.
        review = {"resourceAttributes": {"verb": "get", "resource": "nodes", "subresource": "metrics", "name": NODE}}
        spec = {**review, "user": "monitoring"}
        asked = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        wait_for(lambda: api.create(reviews, asked)["status"]["allowed"], 10.0, str)
        for path in ("/metrics", "/metrics/cadvisor", "/stats/summary"):
            assert web.node(path, token)[0] == 200, path
        for path in ("/pods", "/logs/", "/configz", "/containerLogs/default/web/main"):
            assert web.node(path, token)[0] == 403, path
    finally:
        for directory in ("clusterrolebindings", "clusterroles"):
            api.delete(f"{rbac}/{directory}/monitoring")
