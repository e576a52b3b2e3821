"""kubectl's flags and forms, against a running agent."""

import base64
import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest
import yaml

from pykubelet.testing.agent import AgentProcess, cli_command, environment, wait_for
from pykubelet.testing.patience import PATIENCE
from tests.manifests import config_map, container, pod, secret

pytestmark = [pytest.mark.root, pytest.mark.runtime]

BROKEN = "apiVersion: v1\nkind: Pod\nmetadata: {name: broken}\nspec:\n  containers:\n  - {name: a, imagee: b}\n"


@pytest.fixture(scope="module", autouse=True)
def shown(agent: AgentProcess) -> Iterator[None]:
    """The pods and objects that the commands are asked about."""
    agent.write(
        "forms.json",
        config_map("settings", {"k": "value"}),
        secret("key", {"password": "hidden"}),
        pod("web", metadata={"labels": {"app": "web"}}),
        pod("db", metadata={"labels": {"app": "db"}, "namespace": "apart"}),
    )
    agent.wait_running("web", "db")
    yield
    (agent.manifests / "forms.json").unlink()


def ok(agent: AgentProcess, *arguments: str) -> str:
    done = agent.cli(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rows(agent: AgentProcess, *arguments: str) -> list[list[str]]:
    return [line.split() for line in ok(agent, *arguments).splitlines()]


def test_get_pods_in_the_forms_of_kubectl(agent: AgentProcess) -> None:
    ip = agent.pod("web").status.pod_ip
    assert {row[0] for row in rows(agent, "get", "pods", "-A", "--no-headers")} == {"default", "apart"}
    assert ok(agent, "get", "pods", "-l", "app=web", "-o", "name") == "pod/web-testnode\n"
    assert ok(agent, "get", "pod/web", "po/db", "-o", "name") == "pod/web-testnode\npod/db-testnode\n"
    assert ok(agent, "get", "pod", "web", "-o", "jsonpath={.status.podIP}") == ip
    template = "jsonpath={range .items[?(@.metadata.namespace=='default')]}{.metadata.name}{'\\t'}{.status.phase}{end}"
    assert ok(agent, "get", "po", "-o", template) == "web-testnode\tRunning"
    columns = "custom-columns=NAME:.metadata.name,IMAGE:.spec.containers[*].image"
    assert rows(agent, "get", "po", "-n", "apart", "-o", columns) == [
        ["NAME", "IMAGE"],
        ["db-testnode", "localhost/pykubelet/busybox:1"],
    ]
    assert [row[0] for row in rows(agent, "get", "po", "-n", "apart")] == ["NAME", "db-testnode"]
    missing = agent.cli("get", "pods", "web", "wep")
    assert (missing.returncode, "web-testnode" in missing.stdout) == (1, True)
    assert "pod 'wep' not found; did you mean web?" in missing.stderr


def test_get_node_config_maps_and_secrets(agent: AgentProcess) -> None:
    heading, node = rows(agent, "get", "nodes")
    assert heading == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert (node[0], node[1], node[-1][:2]) == ("testnode", "Ready", "v1")
    capacity = json.loads(ok(agent, "get", "node", "testnode", "-o", "json"))["status"]["capacity"]
    assert {"cpu", "memory", "pods"} <= capacity.keys()
    assert rows(agent, "get", "cm", "-n", "default") == [["NAME", "DATA"], ["settings", "1"]]
    assert yaml.safe_load(ok(agent, "get", "cm/settings", "-o", "yaml"))["data"] == {"k": "value"}
    assert rows(agent, "get", "secrets", "-o", "wide")[1] == ["default", "key", "Opaque", "1", "password", "6B"]
    value = ok(agent, "get", "secret", "key", "-o", "jsonpath={.data.password}")
    assert base64.b64decode(value) == b"hidden"


def test_a_broken_file_is_named_by_get_pods_and_get_problems(agent: AgentProcess) -> None:
    path = agent.write_text("broken.yaml", BROKEN)
    try:
        wait_for(lambda: "broken.yaml" in ok(agent, "get", "problems"), 10, lambda: ok(agent, "get", "problems"))
        problem = ok(agent, "get", "problems").splitlines()[1]
        assert problem.startswith(f"{path}:6:")
        assert "imagee: unknown field" in problem
        done = agent.cli("get", "pods")
        assert f"1 problem: {path}:6:" in done.stderr
        assert "broken" not in done.stdout
    finally:
        path.unlink()
    wait_for(lambda: "broken" not in agent.cli("get", "pods").stderr, 10, lambda: agent.cli("get", "pods").stderr)


def test_watch_has_stable_columns_and_a_row_per_change(agent: AgentProcess) -> None:
    with watching(agent, "get", "pods", "-w") as seen:
        wait_for(lambda: "db-testnode" in "".join(seen()), 10, lambda: "".join(seen()))
        stopping = container(command=["sh", "-c", "trap 'sleep 1; exit 0' TERM; while :; do sleep 0.1; done"])
        path = agent.write("late.json", pod("slow-to-stop", stopping))
        agent.wait_running("slow-to-stop")
        path.unlink()
        wait_for(lambda: "Deleted" in "".join(seen()), 20, lambda: "".join(seen()))
        lines = [line for line in seen() if line.strip()]
    late = [line.split() for line in lines if "slow-to-stop" in line]
    assert [row[3] for row in late].count("Terminating") == 1
    visible = [row[:5] for row in late]
    assert all(one != other for one, other in pairwise(visible)), "\n".join(lines)
    heading = lines[0]
    for line in lines:
        cells = line.split()
        for name, cell in zip(heading.split()[3:], cells[3:], strict=True):
            assert line[heading.index(name) :].startswith(cell), "\n".join(lines)


@contextmanager
def watching(agent: AgentProcess, *arguments: str) -> Iterator[Callable[[], list[str]]]:
    """Run a command for the block; yields a function that returns its lines so far."""
    output = agent.home / "watch.txt"
    with output.open("wb") as file:
        process = subprocess.Popen(cli_command(agent.socket, *arguments), stdout=file, env=environment())
    try:
        yield lambda: output.read_text().splitlines()
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=10 * PATIENCE)
