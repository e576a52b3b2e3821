"""Changes of the configuration that a running agent applies, with a real agent and a real runtime."""

import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykubelet.testing.agent import AgentProcess, cli_command, environment, wait_for
from pykubelet.testing.free_ports import free_port
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.runtime import PrivateRuntime
from pykubelet.testing.terminal import Terminal
from tests.manifests import Json, container, pod

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.only_on("criserver")]
_TALK = "i=0; while :; do i=$((i+1)); echo line $i of a talkative container; [ $((i % 200)) = 0 ] && sleep 0.1; done"


@pytest.fixture
def agent(isolation: Isolation, daemon: PrivateRuntime) -> Iterator[AgentProcess]:
    fields: Json = {"maxPods": 10, "containerLogMonitorInterval": "3s"}
    made = AgentProcess(isolation.home / "node", daemon.endpoint, isolation.cgroup_root, config=fields)
    drop_ins = made.home / "conf.d"
    drop_ins.mkdir(parents=True)
    made.flags = ("--config-dir", str(drop_ins))
    made.start()
    try:
        yield made
        made.remove_all_pods()
        assert made.stop() == 0
    finally:
        made.destroy()


def replace_file(path: Path, text: str) -> None:
    temporary = path.with_name(f"{path.name}.new")
    temporary.write_text(text)
    temporary.rename(path)


def status(agent: AgentProcess) -> Any:
    return json.loads(agent.cli("config", "status", "-o", "json").stdout)


def field(agent: AgentProcess, name: str) -> Any:
    (found,) = (each for each in status(agent)["fields"] if each["field"] == name)
    return found


def wait_in_force(agent: AgentProcess, name: str, value: object) -> None:
    wait_for(lambda: field(agent, name)["inForce"] == value, 20, agent.log_tail)


def test_changed_files_are_applied_without_a_restart_and_refused_as_a_whole(agent: AgentProcess) -> None:
    agent.write("talk", pod("talk", container(command=["sh", "-c", _TALK])))
    agent.write("calm", pod("calm", container()))
    talk, calm = agent.wait_running("talk", "calm")
    pid, ids = agent.pid, {each.metadata.uid: each.status.container_statuses[0].container_id for each in (talk, calm)}

    # A change of the file: log rotation.
    agent.config |= {"containerLogMaxSize": "20Ki", "containerLogMaxFiles": 3, "port": agent.node_port + 1}
    replace_file(agent.config_file, agent.config_text())
    wait_in_force(agent, "containerLogMaxSize", "20Ki")
    directory = next(agent.pod_logs.glob("default_talk*")) / talk.spec.containers[0].name
    wait_for(lambda: len(list(directory.iterdir())) > 1, 30, agent.log_tail)
    port = field(agent, "port")
    assert (port["state"], port["onChange"], port["configured"] - port["inForce"]) == ("needs restart", "restart", 1)
    assert "sockets are opened at the start" in port["reason"]

    # A drop-in file that is written in place: the number of pods.
    drop_in = agent.home / "conf.d" / "10-pods.conf"
    drop_in.write_text("kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\nmaxPods: 2\n")
    wait_in_force(agent, "maxPods", 2)
    agent.write("third", pod("third", container()))
    refused = agent.wait_pod("third", lambda found: found.status.phase == "Failed")
    # A pod of a manifest is critical: it fails since nothing could be preempted for it.
    assert "pods" in refused.status.message, refused.status

    # An invalid file: all of it is refused, with the place of the error.
    drop_in.write_text(drop_in.read_text() + "containerLogMaxFiles: 7\nimageGCHighThresholdPercent: 300\n")
    wait_for(lambda: "imageGCHighThresholdPercent" in status(agent)["error"], 20, agent.log_tail)
    shown = agent.cli("config", "status", "maxPods", "containerLogMaxFiles")
    assert shown.returncode == 1
    assert f"{drop_in}:5:" in shown.stderr and "imageGCHighThresholdPercent: must be a percentage" in shown.stderr
    assert field(agent, "containerLogMaxFiles")["inForce"] == 3
    events = {item["reason"]: item["message"] for item in agent.api.get("/api/v1/events")["items"]}
    assert "imageGCHighThresholdPercent" in events["KubeletConfigRefused"]
    assert "maxPods applied; port needs a restart" in events["KubeletConfigChanged"]

    # The file is removed, and SIGHUP makes the agent look at once.
    drop_in.unlink()
    assert agent.process is not None
    agent.process.send_signal(signal.SIGHUP)
    wait_in_force(agent, "maxPods", 10)
    whole = status(agent)
    assert (whole["error"], whole["restart"]) == ("", ["port"])
    table = agent.cli("config", "status", "--changed").stdout
    assert table.splitlines()[0].split() == ["FIELD", "IN", "FORCE", "CONFIGURED", "STATE", "A", "CHANGE", "IS"]
    assert "needs a restart of the agent: port" in table

    assert agent.pid == pid and agent.process.poll() is None
    for pod_now in agent.wait_running("talk", "calm"):
        assert pod_now.status.container_statuses[0].container_id == ids[pod_now.metadata.uid]
        assert pod_now.status.container_statuses[0].restart_count == 0


def test_status_fits_a_terminal_of_80_columns(agent: AgentProcess) -> None:
    agent.config |= {"port": agent.node_port + 1}
    replace_file(agent.config_file, agent.config_text())
    wait_for(lambda: status(agent)["restart"] == ["port"], 20, agent.log_tail)
    for words in ((), ("--changed",), ("port", "authentication")):
        with Terminal(cli_command(agent.socket, "config", "status", *words), environment(), size=(24, 80)) as terminal:
            assert terminal.end() == 0
        lines = terminal.shown.splitlines()
        assert lines[0].split() == ["FIELD", "IN", "FORCE", "A", "CHANGE", "IS"]
        assert [line for line in lines if len(line) > 80] == []
        (port,) = (index for index, line in enumerate(lines) if line.startswith("port "))
        assert lines[port].split() == ["port", str(agent.node_port), "needs", "a", "restart"]
        assert lines[port + 1] == f"  configured: {agent.node_port + 1} (needs restart)"
        assert ("  sockets are opened at the start" in lines) == ("port" in words)
        assert lines[-1] == "needs a restart of the agent: port"


def test_broken_file_at_sighup_changes_nothing_and_is_named(agent: AgentProcess) -> None:
    agent.write("steady", pod("steady", container()))
    (before,) = agent.wait_running("steady")
    agent.config |= {"evictionHard": {"memory.available": "99%"}, "maxPods": "many"}
    replace_file(agent.config_file, agent.config_text())
    assert agent.process is not None
    agent.process.send_signal(signal.SIGHUP)
    wait_for(lambda: status(agent)["error"] != "", 20, agent.log_tail)
    place, wrong = f"{agent.config_file}:1:", "maxPods: expected `int`"
    assert place in status(agent)["error"] and wrong in status(agent)["error"]
    (line,) = (each for each in agent.log_tail().splitlines() if "configuration refused: the agent keeps" in each)
    assert place in line and wrong in line
    (event,) = (each for each in agent.api.get("/api/v1/events")["items"] if each["reason"] == "KubeletConfigRefused")
    assert event["type"] == "Warning" and place in event["message"] and wrong in event["message"]
    assert field(agent, "evictionHard")["inForce"] == {}
    (after,) = agent.wait_running("steady")
    assert after.status.container_statuses[0].container_id == before.status.container_statuses[0].container_id


def test_server_that_no_client_could_use_is_refused_before_anything_changes(
    isolation: Isolation, daemon: PrivateRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was found by the running agent, which systemd then started again and again."""
    fields: Json = {"readOnlyPort": free_port(), "enableServer": None, "port": 10250}
    made = AgentProcess(isolation.home / "node", daemon.endpoint, isolation.cgroup_root, config=fields)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(isolation.home / "notify"))
        manager.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(isolation.home / "notify"))
        try:
            made.start(wait=False)
            assert made.process is not None
            assert made.process.wait(timeout=60 * PATIENCE) == 2
            with pytest.raises(BlockingIOError):
                manager.recv(100)
            log = made.log_tail()
            assert f"{made.config_file}:1:" in log and "readOnlyPort: enables the kubelet API server" in log
            assert "set authorization.mode to AlwaysAllow" in log
            assert "core task failed" not in log and "never awaited" not in log
            assert not made.root.exists() and not made.socket.parent.exists()
        finally:
            made.destroy()
