"""Ages, events, timelines and the ends of containers survive a restart of the agent."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pykubelet.base.errors import NotFound
from pykubelet.kubelet.report.history.history import FILE_NAME
from pykubelet.testing.agent import AgentProcess, container_status, wait_for
from tests.manifests import Apply, Json, container, pod, secret, sh

pytestmark = [pytest.mark.root, pytest.mark.runtime]

_SECRET = "swordfish-7c1d"
_END_ONCE = "if [ -e /shared/ran ]; then exec sleep 3600; fi; touch /shared/ran; exit 3"


def history(agent: AgentProcess) -> Path:
    return agent.root / FILE_NAME


def timeline(agent: AgentProcess, name: str) -> Any:
    with suppress(NotFound):
        return agent.api.get(f"/pykubelet/v1/timeline/default/{name}-{agent.node_name}")
    return None


def ends(agent: AgentProcess, name: str) -> Any:
    return agent.api.get(f"/pykubelet/v1/restarts/default/{name}-{agent.node_name}")["items"]


def events(agent: AgentProcess, name: str) -> set[tuple[str, str]]:
    return {(event.metadata.name, event.reason) for event in agent.events(name)}


def wait_written(agent: AgentProcess, *texts: str) -> None:
    """Wait until the history file has these texts."""
    file = history(agent)
    wait_for(
        lambda: file.exists() and all(text in file.read_text(errors="replace") for text in texts),
        20,
        lambda: f"{texts} not written: {file.read_text(errors='replace')[-3000:] if file.exists() else 'no file'}",
    )


def steps(view: Any) -> list[tuple[str, float]]:
    return [(step["step"], step["start_s"]) for step in view["steps"]]


@pytest.fixture(params=[signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def end_by(request: pytest.FixtureRequest) -> signal.Signals:
    number: signal.Signals = request.param
    return number


@pytest.fixture
def running_again(agent: AgentProcess) -> Iterator[None]:
    """The agent runs after the test, whatever happened to it."""
    yield
    if agent.process is None:
        agent.start()


@pytest.mark.usefixtures("running_again")
def test_restart_of_the_agent_keeps_ages_events_timelines_and_ends(
    agent: AgentProcess, apply: Apply, end_by: signal.Signals
) -> None:
    name = f"lasting-{end_by.name.lower()}"
    shared: Json = {"name": "shared", "emptyDir": {}}
    env = [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": f"{name}-s", "key": "token"}}}]
    once = container("once", sh(_END_ONCE), volumeMounts=[{"name": "shared", "mountPath": "/shared"}], env=env)
    apply(name, secret(f"{name}-s", {"token": _SECRET}), pod(name, once, container("main"), volumes=[shared]))
    agent.wait_pod(name, lambda pod: container_status(pod, "once").restart_count == 1)
    agent.wait_running(name)
    wait_for(lambda: timeline(agent, name)["ready"], 20, lambda: str(timeline(agent, name)))
    before = agent.pod(name)
    reported, drawn, ended = events(agent, name), timeline(agent, name), ends(agent, name)
    assert [(end["container"], end["exitCode"]) for end in ended] == [("once", 3)]
    wait_written(agent, '"exitCode":3', f'"total_s":{drawn["total_s"]}', *(name for name, _ in reported))
    agent.stop(end_by)
    agent.start()
    agent.wait_running(name)
    after = agent.pod(name)
    assert after.status.start_time == before.status.start_time
    assert after.metadata.creation_timestamp == before.metadata.creation_timestamp
    assert reported <= events(agent, name)
    assert ends(agent, name) == ended
    again = timeline(agent, name)
    assert (steps(again), again["total_s"], again["kind"]) == (steps(drawn), drawn["total_s"], drawn["kind"])
    described = agent.cli("describe", "pod", name).stdout
    assert "Ended Containers:" in described
    assert "Scheduled" in described or "Started" in described
    assert name in agent.cli("timeline", name).stdout
    content = history(agent).read_text()
    assert _SECRET not in content
    assert "c3dvcmRmaXNo" not in content, "the secret in base64"
    assert history(agent).stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("running_again")
def test_pod_removed_while_the_agent_was_stopped_is_new_when_it_is_listed_again(
    agent: AgentProcess, apply: Apply
) -> None:
    manifest = pod("gone-once")
    apply("gone-once", manifest)
    agent.wait_running("gone-once")
    before = agent.pod("gone-once").status.start_time
    uid = agent.pod("gone-once").metadata.uid
    wait_written(agent, f'"type":"pod","uid":"{uid}"')
    agent.stop()
    (agent.manifests / "gone-once.json").unlink()
    agent.start()
    agent.write("other.json", pod("other"))
    agent.wait_running("other")
    wait_written(agent, f'"type":"gone","uid":"{uid}"')
    apply("gone-once", manifest)
    agent.wait_running("gone-once")
    again = agent.pod("gone-once")
    assert again.metadata.uid == uid
    assert again.status.start_time != before


@pytest.mark.usefixtures("running_again")
def test_damaged_history_is_set_aside_named_and_begun_again(agent: AgentProcess, apply: Apply) -> None:
    apply("undamaged", pod("undamaged"))
    agent.wait_running("undamaged")
    wait_written(agent, "undamaged")
    agent.stop()
    file = history(agent)
    file.write_bytes(b"\0" * 100 + file.read_bytes())
    agent.start()
    agent.wait_running("undamaged")
    items = agent.api.get("/api/v1/events")["items"]
    assert [item["reason"] for item in items].count("HistoryDamaged") == 1
    assert "is damaged, it is kept as" in agent.log_tail(100_000)
    assert str(file) in agent.cli("doctor").stdout
    assert json.loads(agent.cli("get", "pods", "-o", "json").stdout)["items"]
    wait_written(agent, "HistoryDamaged")


@pytest.mark.usefixtures("running_again")
def test_agent_runs_on_while_the_history_cannot_be_written(agent: AgentProcess, apply: Apply) -> None:
    def reported() -> int:
        items = agent.api.get("/api/v1/events")["items"]
        return sum(item["reason"] == "HistoryUnavailable" for item in items)

    file = history(agent)
    agent.stop()
    subprocess.run(["chattr", "+i", str(file)], check=True)
    try:
        agent.start()
        wait_for(lambda: reported() == 1, 20, agent.log_tail)
        apply("runs-on", pod("runs-on"))
        agent.wait_running("runs-on")
    finally:
        subprocess.run(["chattr", "-i", str(file)], check=True)
    wait_written(agent, "runs-on", "HistoryUnavailable")
    assert reported() == 1
