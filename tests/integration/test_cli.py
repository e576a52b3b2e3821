"""The command line against a running agent, as a user calls it."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from pykubelet.testing.agent import AgentProcess, cli_command, container_status, environment, wait_for
from pykubelet.testing.free_ports import free_port
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.runtime import PrivateRuntime
from tests.manifests import config_map, container, pod, serving

pytestmark = [pytest.mark.root, pytest.mark.runtime]

_COUNTING = """
trap 'exit 0' TERM
i=0
while :; do i=$((i + 1)); echo line $i; [ $i -le 20 ] || sleep 0.2 & wait $!; done
"""


@pytest.fixture(scope="module")
def agent_config() -> dict[str, int]:
    return {"healthzPort": free_port()}


@pytest.fixture(scope="module", autouse=True)
def shown(agent: AgentProcess) -> Iterator[None]:
    """The pods that the commands are asked about."""
    probe = {"exec": {"command": ["true"]}, "periodSeconds": 1}
    volumes = [{"name": "map", "configMap": {"name": "cli"}}, {"name": "tmp", "emptyDir": {}}]
    mounts = [{"name": "map", "mountPath": "/map"}]
    agent.write(
        "cli.json",
        config_map("cli", {"k": "v"}),
        pod(
            "web",
            container("main", serving("echo one; echo two >&2; echo three"), volumeMounts=mounts, readinessProbe=probe),
            container("ticker", ["sh", "-c", _COUNTING]),
            initContainers=[container("prepare", ["sh", "-c", "echo prepared"])],
            volumes=volumes,
            metadata={"labels": {"app": "web"}},
        ),
        pod("other", metadata={"namespace": "apart"}),
    )
    agent.wait_running("web", "other")
    yield
    (agent.manifests / "cli.json").unlink()


def _ok(agent: AgentProcess, *arguments: str) -> str:
    done = agent.cli(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_get_pods_prints_all_output_forms(agent: AgentProcess) -> None:
    table = [line.split() for line in _ok(agent, "get", "pods").splitlines()]
    assert table[0] == ["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    rows = {row[1]: row for row in table[1:]}
    assert rows["web-testnode"][:5] == ["default", "web-testnode", "2/2", "Running", "0"]
    assert rows["other-testnode"][0] == "apart"
    wide = _ok(agent, "get", "pods", "-n", "apart", "-o", "wide").splitlines()
    assert len(wide) == 2
    assert wide[1].split()[-2:] == [agent.pod("other").status.pod_ip, "testnode"]
    one = json.loads(_ok(agent, "get", "pods", "web", "-o", "json"))
    assert (one["kind"], one["apiVersion"], one["metadata"]["name"]) == ("Pod", "v1", "web-testnode")
    assert one["status"]["phase"] == "Running"
    many = yaml.safe_load(_ok(agent, "get", "pods", "-o", "yaml"))
    assert {item["metadata"]["name"] for item in many["items"]} >= {"web-testnode", "other-testnode"}


def test_get_events_and_images(agent: AgentProcess) -> None:
    events = _ok(agent, "get", "events", "-o", "wide")
    assert re.search(r"Normal +Started +pod/web-testnode", events)
    assert "spec.containers{ticker}" in events
    items = json.loads(_ok(agent, "get", "events", "-o", "json"))["items"]
    assert {"Pulled", "Created", "Started"} <= {item["reason"] for item in items}
    assert "localhost/pykubelet/busybox:1" in _ok(agent, "get", "images")
    images = yaml.safe_load(_ok(agent, "get", "images", "-o", "yaml"))["items"]
    assert any("localhost/pykubelet/busybox:1" in image["repoTags"] for image in images)


def test_get_pods_watch_prints_a_pod_until_it_is_deleted(agent: AgentProcess) -> None:
    watch = _start(agent, "get", "pods", "-w")
    try:
        _read_until(watch, "web-testnode")
        path = agent.write("watched.json", pod("watched", container(command=["true"]), restartPolicy="Never"))
        text = _read_until(watch, "Completed", 15)
        assert re.search(r"watched-testnode +0/1 +(Pending|ContainerCreating)", text)
        path.unlink()
        _read_until(watch, "Deleted", 15)
    finally:
        _end(watch)


def _start(agent: AgentProcess, *arguments: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(cli_command(agent.socket, *arguments), stdout=subprocess.PIPE, env=environment())


def _read_until(process: "subprocess.Popen[bytes]", text: str, timeout: float = 10.0) -> str:
    assert process.stdout is not None
    descriptor = process.stdout.fileno()
    seen = ""
    deadline = time.monotonic() + timeout * PATIENCE
    while text not in seen:
        ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"no {text!r} within {timeout} s; so far:\n{seen}"
        data = os.read(descriptor, 65536)
        assert data, f"the command ended without {text!r}:\n{seen}"
        seen += data.decode()
    return seen


def _end(process: "subprocess.Popen[bytes]") -> int:
    process.send_signal(signal.SIGINT)
    status = process.wait(timeout=10 * PATIENCE)
    assert process.stdout is not None
    process.stdout.close()
    return status


def test_describe_prints_the_pod_or_says_that_it_is_missing(agent: AgentProcess) -> None:
    text = _ok(agent, "describe", "pod", "web")
    for expected in (
        r"Name: +web-testnode",
        r"Namespace: +default",
        r"Labels: +app=web",
        r"Status: +Running",
        r"Init Containers:\n  prepare:",
        r"Reason: +Completed",
        r"Containers:\n  main:",
        r"Readiness: +exec \['true'\]",
        r"/map from map",
        r"Ready +True",
        r"Volumes:\n  map: +configMap cli",
        r"Events:\n  Type +Reason",
        r"Normal +Pulled",
    ):
        assert re.search(expected, text), f"no {expected!r} in:\n{text}"
    missing = agent.cli("describe", "pod", "missing")
    assert missing.returncode == 1
    assert "pod 'missing' not found" in missing.stderr


def test_logs_are_selected_by_container_tail_and_timestamps(agent: AgentProcess) -> None:
    assert sorted(_ok(agent, "logs", "web").splitlines()) == ["one", "three", "two"]
    assert _ok(agent, "logs", "web", "prepare") == "prepared\n"
    assert len(_ok(agent, "logs", "web", "-c", "ticker", "--tail", "3").splitlines()) == 3
    assert _ok(agent, "logs", "web", "-c", "main", "--tail", "0") == ""
    stamped = _ok(agent, "logs", "web", "--timestamps").splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+", line) for line in stamped)
    wrong = agent.cli("logs", "web", "-c", "nothere")
    assert wrong.returncode == 1
    assert "main, ticker" in wrong.stderr or "prepare, main" in wrong.stderr


@pytest.mark.steady_clock  # conmon's clock, by which lines are stamped, does not jump
def test_logs_since_a_duration_leaves_out_older_lines(agent: AgentProcess) -> None:
    began = datetime.fromisoformat(_ok(agent, "logs", "web", "-c", "ticker", "--timestamps").split()[0])
    wait_for(lambda: datetime.now(UTC) - began > timedelta(seconds=1.1), 10, lambda: f"the first line is of {began}")
    recent = _ok(agent, "logs", "web", "-c", "ticker", "--since", "1s").splitlines()
    everything = _ok(agent, "logs", "web", "-c", "ticker").splitlines()
    assert 0 < len(recent) < len(everything)
    assert everything[:3] == ["line 1", "line 2", "line 3"]


def test_following_logs_over_a_restart(agent: AgentProcess) -> None:
    follow = _start(agent, "logs", "-f", "web", "-c", "ticker", "--tail", "1")
    try:
        _read_until(follow, "line ")
        agent.end_container("web", "ticker")
        _read_until(follow, "line 1\n")
        _read_until(follow, "line 2")
    finally:
        assert _end(follow) == 130
    agent.wait_pod("web", lambda p: container_status(p, "ticker").restart_count == 1)
    previous = _ok(agent, "logs", "-p", "web", "-c", "ticker").splitlines()
    assert previous[0] == "line 1"
    assert agent.cli("logs", "-p", "web", "-c", "main").returncode != 0


def test_exec_passes_arguments_input_output_and_exit_code(agent: AgentProcess) -> None:
    assert _ok(agent, "exec", "web", "--", "echo", "a  b", "$HOME") == "a  b $HOME\n"
    both = agent.cli("exec", "web", "-c", "ticker", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (both.returncode, both.stdout, both.stderr) == (7, "out\n", "err\n")
    piped = subprocess.run(
        cli_command(agent.socket, "exec", "-i", "web", "--", "sh", "-c", "read line; echo got $line"),
        input="some words\n",
        capture_output=True,
        text=True,
        timeout=20 * PATIENCE,
        env=environment(),
    )
    assert (piped.returncode, piped.stdout) == (0, "got some words\n")
    big = agent.cli("exec", "web", "--", "sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' x")
    assert len(big.stdout) == 1_000_000
    missing = agent.cli("exec", "web", "--", "no-such-program")
    assert missing.returncode == 127
    assert "no-such-program" in missing.stderr


def test_exec_with_a_terminal_has_its_size_and_exit_code(agent: AgentProcess) -> None:
    pid, descriptor = pty.fork()
    if pid == 0:
        os.execvpe(
            "/bin/sh",
            [
                "sh",
                "-c",
                'stty rows 33 cols 101; exec "$@"',
                "sh",
                *cli_command(agent.socket, "exec", "-it", "web", "--", "sh"),
            ],
            environment(),
        )
    try:
        _converse(descriptor, "/ # ")
        # The size is set after the prompt; the echo of this command does not contain it.
        sized = 'until [ "$(stty size)" = "33 $((101))" ]; do sleep 0.1; done'
        _converse(descriptor, "33 101", f"{sized}; stty size\r")
        _converse(descriptor, "/dev/pts/", "tty\r")
        _converse(descriptor, "asleep", "echo as''leep; sleep 60\r")
        _converse(descriptor, "code 130", "\x03echo code $?\r")
        os.write(descriptor, b"exit 5\r")
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 5
    finally:
        os.close(descriptor)


def _converse(descriptor: int, expected: str, typed: str = "") -> None:
    """Type a line and read the terminal until it shows what is expected."""
    seen = ""
    os.write(descriptor, typed.encode())
    deadline = time.monotonic() + 20 * PATIENCE
    while expected not in seen:
        ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"the terminal does not show {expected!r}: {seen!r}"
        seen += os.read(descriptor, 4096).decode(errors="replace")


def test_timeline_prints_chart_json_and_picture(agent: AgentProcess) -> None:
    chart = _ok(agent, "timeline", "web")
    for step in ("seen", "queued", "volumes", "sandbox", "create main", "start main", "init prepare", "ready"):
        assert re.search(rf"^  {step} +│", chart, re.MULTILINE), f"no {step} in:\n{chart}"
    steps = json.loads(_ok(agent, "timeline", "web", "-o", "json"))["steps"]
    assert all(step["start_s"] >= 0 for step in steps)
    picture = _ok(agent, "timeline", "web", "--svg", "-")
    assert picture.startswith("<svg ") and ">start main</text>" in picture


def test_check_accepts_a_good_file_and_locates_an_unknown_field(agent: AgentProcess, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(json.dumps(pod("x")))
    bad.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec:\n  containers:\n  - {name: a, imagee: b}\n")
    assert "good.yaml: ok, Pod default/x" in _ok(agent, "check", str(good))
    done = agent.cli("check", str(good), str(bad))
    assert done.returncode == 1
    assert re.search(r"bad\.yaml:6:\d+: .*spec\.containers\[0\]\.imagee: unknown field.*image", done.stdout)


def test_doctor_passes_with_a_runtime_and_fails_without_one(agent: AgentProcess) -> None:
    done = agent.cli("doctor", "--container-runtime-endpoint", agent.endpoint)
    assert done.returncode == 0, done.stdout
    for subject in ("user", "kernel", "cgroups", "CNI plugins", "CRI runtime", "RuntimeReady", "NetworkReady"):
        assert re.search(rf"✓ {subject} ", done.stdout), done.stdout
    nothing = agent.cli("doctor", "--container-runtime-endpoint", "unix:///nowhere.sock")
    assert nothing.returncode == 1
    assert "start the runtime" in nothing.stdout


def test_version_names_runtime_and_completion_prints_a_script(agent: AgentProcess, daemon: PrivateRuntime) -> None:
    version = json.loads(_ok(agent, "version", "-o", "json"))
    assert version["runtime"].startswith(f"{daemon.name} ")
    assert version["agent"] == version["pykubelet"]
    script = _ok(agent, "completion", "bash")
    assert "_PYKUBELET_COMPLETE" in script


def test_commands_without_an_agent_name_the_remedy(tmp_path: Path) -> None:
    done = subprocess.run(
        cli_command(tmp_path / "none.sock", "get", "pods"), capture_output=True, text=True, env=environment()
    )
    assert done.returncode == 1
    assert "no agent responds at" in done.stderr
    assert "pykubelet run" in done.stderr


def test_run_refuses_wrong_configuration(agent: AgentProcess, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPodz: 3\nsyncFrequency: often\n"
    )
    done = agent.cli("run", "--manifests", str(tmp_path), "--config", str(config))
    assert done.returncode == 2
    assert f"error: {config}:3:1: maxPodz: unknown field (did you mean maxPods?)" in done.stderr


def test_metrics_and_health_are_served_on_their_port(agent: AgentProcess, agent_config: dict[str, int]) -> None:
    base = f"http://127.0.0.1:{agent_config['healthzPort']}"
    assert _fetch(f"{base}/healthz") == "ok"
    assert "[+]pleg ok" in _fetch(f"{base}/healthz?verbose")
    metrics = _fetch(f"{base}/metrics")
    for name in (
        "kubelet_running_pods 2.0",
        'kubelet_running_containers{container_state="running"} 3.0',
        "kubelet_pod_start_duration_seconds_count",
        "kubelet_pleg_relist_duration_seconds_bucket",
        'kubelet_runtime_operations_total{operation_type="create_container"}',
        "process_resident_memory_bytes",
    ):
        assert name in metrics, f"no {name} in:\n{metrics}"
    assert 'prober_probe_total{container="main"' in _fetch(f"{base}/metrics/probes")
    assert agent.api.get("/pykubelet/v1/healthz")["healthy"] is True


def _fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20 * PATIENCE) as answer:
        return str(answer.read().decode())
