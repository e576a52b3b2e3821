"""Answers of an API server, or of what stands before it, that are no answers: they end no pod, and start none."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.testing.agent import AgentProcess, is_ready, wait_for
from pykubelet.testing.fake_api.faults import Fault
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.runtime import PrivateRuntime
from tests.integration.api_server import ApiServer, api_server
from tests.manifests import Json, container, pod, serving

pytestmark = [pytest.mark.root, pytest.mark.runtime]

_WATCH = r"^GET /api/v1/pods\?.*watch=true"
_LIST = r"^GET /api/v1/pods\?(?!.*watch=true)"


def _of_another_node(name: str) -> Json:
    manifest = pod(name)
    meta = {**manifest["metadata"], "namespace": "default", "uid": f"{name}-1", "resourceVersion": "9"}
    return {**manifest, "metadata": meta, "spec": {**manifest["spec"], "nodeName": "another"}}


def _pod_list(*items: Json, **meta: object) -> bytes:
    document = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "9", **meta}, "items": items}
    return json.dumps(document).encode()


_EXPIRED = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410, "reason": "Expired"}


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with api_server() as made:
        yield made


@pytest.fixture
def agent(api: ApiServer, isolation: Isolation, daemon: PrivateRuntime, tmp_path: Path) -> Iterator[AgentProcess]:
    flags = ("--kubeconfig", str(api.kubeconfig(tmp_path / "kubeconfig")))
    config = {"enableServer": False}
    home = isolation.home / "api-garbage"
    made = AgentProcess(home, daemon.endpoint, isolation.cgroup_root, config=config, flags=flags)
    try:
        made.start()
        yield made
    finally:
        made.destroy()


def _event(kind: str, value: Json) -> bytes:
    return json.dumps({"type": kind, "object": value}).encode() + b"\n"


def test_answers_that_are_none_neither_end_pods_nor_start_others(api: ApiServer, agent: AgentProcess) -> None:
    api.put_pod(pod("web", container(command=serving(status=143))))
    agent.wait_pod("web", is_ready)
    web = api.pod("web")
    expired = _event("ERROR", _EXPIRED)
    _survives(api, agent, Fault(_WATCH, answer=expired), Fault(_LIST, answer=b"{}"))
    _survives(api, agent, Fault(_WATCH, answer=expired), Fault(_LIST, answer=_pod_list(_of_another_node("foreign"))))
    _survives(api, agent, Fault(_WATCH, answer=_event("DELETED", {**web, "kind": "Endpoints"})))
    assert "default/foreign" not in agent.log.read_text()
    api.remove_pod("web")
    agent.wait_gone("web")
    assert agent.stop() == 0


def test_pod_goes_on_although_a_restarted_agent_cannot_read_it(api: ApiServer, agent: AgentProcess) -> None:
    for name in ("web", "orphan"):
        api.put_pod(pod(name, container(command=serving(status=143))))
        agent.wait_pod(name, is_ready)
    before = agent.pod("web").status.container_statuses[0]
    unreadable = {**api.pod("web"), "spec": 7}
    agent.kill()
    api.remove_pod("orphan")
    api.fail(Fault(_LIST, answer=_pod_list(unreadable)))
    agent.start()
    wait_for(lambda: "removing an orphaned pod" in agent.log.read_text(), 120, agent.log_tail)
    assert "web" not in agent.pods()
    api.touch_pod("web")
    agent.wait_pod("web", is_ready)
    now = agent.pod("web").status.container_statuses[0]
    assert (now.container_id, now.restart_count) == (before.container_id, 0)
    api.remove_pod("web")
    agent.wait_gone("web")


def test_pod_that_cannot_be_read_any_more_ends_with_its_deletion(api: ApiServer, agent: AgentProcess) -> None:
    api.put_pod(pod("web", container(command=serving(status=143))))
    agent.wait_pod("web", is_ready)
    web = api.pod("web")
    deletion = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 1}
    unreadable = {**web, "spec": 7, "metadata": {**web["metadata"], **deletion}}
    api.fail(Fault(_WATCH, answer=_event("MODIFIED", unreadable)))
    api.break_watches()
    # The object itself has no deletion here: the agent may read it again before it has removed the pod.
    wait_for(lambda: all(each.status.phase == "Failed" for each in agent.pods().values()), 120, agent.log_tail)
    assert "undecodable object skipped" in agent.log.read_text()


def _survives(api: ApiServer, agent: AgentProcess, *faults: Fault) -> None:
    """Check that pods begin and end after these answers, and that the pod ``web`` has gone on meanwhile."""
    before = agent.pod("web").status.container_statuses[0].container_id
    api.fail(*faults)
    api.break_watches()
    wait_for(lambda: not api.failing(), 60, agent.log_tail)
    api.put_pod(pod("after"))
    agent.wait_pod("after", is_ready)
    api.remove_pod("after")
    agent.wait_gone("after")
    assert set(agent.pods()) == {"web"}
    assert agent.pod("web").status.container_statuses[0].container_id == before
