"""Restart and retry of pods and containers, with the real agent."""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykubelet.testing.agent import (
    AgentProcess,
    cli_command,
    container_status,
    environment,
    nothing_within,
    wait_for,
    waiting_reason,
)
from pykubelet.testing.patience import PATIENCE
from tests.manifests import container, pod, sh, stubborn

pytestmark = [pytest.mark.root, pytest.mark.runtime]


@pytest.fixture(autouse=True)
def clean(agent: AgentProcess) -> Iterator[None]:
    yield
    agent.remove_all_pods()


def _manifest(path: Path, *documents: dict[str, Any]) -> str:
    path.write_text("\n---\n".join(json.dumps(document) for document in documents))
    return str(path)


def _ok(agent: AgentProcess, *arguments: str, stdin: str | None = None) -> str:
    done = _run(agent, *arguments, stdin=stdin)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _run(agent: AgentProcess, *arguments: str, stdin: str | None = None) -> "subprocess.CompletedProcess[str]":
    command = cli_command(agent.socket, *arguments)
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60 * PATIENCE, env=environment(), input=stdin or ""
    )


def _files(agent: AgentProcess) -> dict[str, str]:
    return {path.name: path.read_text() for path in agent.manifests.iterdir()}


# -- restart and retry -------------------------------------------------------------------------------------------------


def _counts(agent: AgentProcess, name: str) -> dict[str, int]:
    status = agent.pod(name).status
    return {c.name: c.restart_count for c in (*status.init_container_statuses, *status.container_statuses)}


def test_restart_of_a_container_restarts_only_that(agent: AgentProcess) -> None:
    stopping = container("main", ["sh", "-c", "trap 'echo stopped; exit 0' TERM; while :; do sleep 1 & wait $!; done"])
    agent.write("web.json", pod("web", stopping, container("other")))
    (before,) = agent.wait_running("web")
    assert _ok(agent, "restart", "web/main", "--wait") == "pod/web-testnode container main restarted\n"
    after = agent.pod("web")
    assert _counts(agent, "web") == {"main": 1, "other": 0}
    assert container_status(after, "other").container_id == container_status(before, "other").container_id
    assert after.status.pod_ip == before.status.pod_ip
    assert "stopped" in _ok(agent, "logs", "-p", "web", "main")
    agent.wait_event("web", "Killing", "by request")
    assert _ok(agent, "restart", "web", "-c", "main", "--wait").endswith("container main restarted\n")
    assert _counts(agent, "web") == {"main": 2, "other": 0}


def test_restart_of_a_pod_restarts_everything_once(agent: AgentProcess) -> None:
    init = container("prepare", sh("true"))
    agent.write("web.json", pod("web", container("main"), container("other"), initContainers=[init]))
    (before,) = agent.wait_running("web")
    assert _ok(agent, "restart", "pod/web", "--wait") == "pod/web-testnode restarted\n"
    assert _counts(agent, "web") == {"prepare": 1, "main": 1, "other": 1}
    assert agent.pod("web").metadata.uid == before.metadata.uid
    nothing_within(lambda: _counts(agent, "web")["main"] != 1, 2.0, lambda: str(_counts(agent, "web")))


@pytest.mark.parametrize("what", ["web/main", "web"])
def test_acknowledged_restart_is_done_once_although_the_agent_is_killed(agent: AgentProcess, what: str) -> None:
    agent.write("web.json", pod("web", container("main", stubborn()), terminationGracePeriodSeconds=3))
    agent.wait_running("web")
    _ok(agent, "restart", what)
    agent.kill()
    agent.start()
    agent.wait_pod("web", lambda found: container_status(found, "main").restart_count == 1, 40.0)
    agent.wait_running("web")
    nothing_within(lambda: _counts(agent, "web")["main"] != 1, 5.0, lambda: str(_counts(agent, "web")))
    assert not list((agent.root / "pods").glob("*/restarts"))


def test_restart_that_is_not_possible(agent: AgentProcess) -> None:
    agent.write("job.json", pod("job", container(command=sh("sleep 1000")), restartPolicy="Never"))
    agent.write("ended.json", pod("ended", container(command=sh("exit 0")), restartPolicy="Never"))
    agent.wait_running("job")
    agent.wait_pod("ended", lambda found: found.status.phase == "Succeeded")
    for words, expected in (
        (("restart", "job"), "has restartPolicy Never"),
        (("restart", "ended"), "has ended (Succeeded)"),
        (("retry", "ended"), "has ended (Succeeded)"),
        (("restart", "none"), "not found"),
        (("restart", "job/none"), "has no container 'none'"),
    ):
        done = _run(agent, *words)
        assert (done.returncode, expected in done.stderr) == (1, True), done.stderr
    assert _run(agent, "restart").returncode == 2
    assert _counts(agent, "job") == {"main": 0}
    (agent.manifests / "job.json").unlink()
    agent.wait_gone("job", timeout=40)


def test_retry_skips_the_back_off_of_a_crash_loop(agent: AgentProcess) -> None:
    agent.write("crash.json", pod("crash", container(command=sh("exit 1"))))
    agent.wait_pod("crash", lambda found: waiting_reason(found) == "CrashLoopBackOff", 60.0)
    count = _counts(agent, "crash")["main"]
    began = time.monotonic()
    assert _ok(agent, "retry", "crash") == "pod/crash-testnode retried\n"
    agent.wait_pod("crash", lambda found: container_status(found).restart_count > count)
    assert time.monotonic() - began < 8 * PATIENCE, "the back-off of 10 s was not skipped"
    agent.wait_pod("crash", lambda found: waiting_reason(found) == "CrashLoopBackOff", 60.0)


def test_retry_skips_the_back_off_of_an_image_pull(agent: AgentProcess) -> None:
    agent.write("pull.json", pod("pull", container(image="localhost:1/none:1")))
    agent.wait_pod("pull", lambda found: waiting_reason(found) == "ImagePullBackOff", 60.0)

    def pulls() -> int:
        return sum(event.count or 1 for event in agent.events("pull") if event.reason == "Pulling")

    before = pulls()
    began = time.monotonic()
    _ok(agent, "retry", "pull")
    wait_for(lambda: pulls() > before, 8.0, lambda: agent.log_tail())
    assert time.monotonic() - began < 8 * PATIENCE
