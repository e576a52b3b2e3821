"""``pykubelet check`` against the node of a running agent: its verdicts are those of the agent."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykubelet.testing.agent import AgentProcess, cli_command, environment
from pykubelet.testing.free_ports import free_port

pytestmark = [pytest.mark.root, pytest.mark.runtime]

_HOST_PORT = free_port()
_SETTINGS = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {mode: fast}\n"


def _pod(name: str, container: str = "", spec: str = "") -> str:
    """Return a manifest with the container on line 6 and ``spec`` on line 8."""
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  containers:\n"
        f'  - {{name: main, image: "localhost/pykubelet/busybox:1", {container}\n'
        f'     command: [sh, -c, "trap : TERM; sleep 9999 & wait"]}}\n{spec}'
    )


_PORT = f"ports: [{{containerPort: 80, hostPort: {_HOST_PORT}}}],"


@pytest.fixture(scope="module", autouse=True)
def running(agent: AgentProcess) -> Iterator[Path]:
    """The manifest of a pod that uses a host port, and of a ConfigMap."""
    path = agent.write_text("taken.yaml", f"{_pod('taken', _PORT)}---\n{_SETTINGS}")
    agent.wait_running("taken")
    yield path
    path.unlink()


def test_node_of_the_agent_is_served(agent: AgentProcess, running: Path) -> None:
    node = agent.api.get("/pykubelet/v1/node")
    assert (node["name"], node["manifests"], node["cluster"]) == (agent.node_name, str(agent.manifests), False)
    assert node["labels"]["kubernetes.io/hostname"] == agent.node_name
    assert {"cpu", "memory"} <= node["allocatable"].keys()
    assert node["objects"] == [
        {"kind": "ConfigMap", "namespace": "default", "name": "settings", "keys": ["mode"], "source": str(running)}
    ]
    (pod,) = (each for each in node["pods"] if each["name"] == "taken")
    assert pod["source"] == str(running)
    assert pod["hostPorts"] == [{"ip": "", "protocol": "TCP", "port": _HOST_PORT}]


@pytest.mark.parametrize(
    ("container", "spec", "line", "message", "reason"),
    [
        (_PORT, "", 6, rf"{_HOST_PORT}/TCP is already taken by Pod default/taken \(.*/taken\.yaml:6\)", "NodePorts"),
        ("", "  nodeSelector: {disk: ssd}\n", 8, "the node 'testnode' has no label disk", "NodeAffinity"),
        (
            "resources: {requests: {memory: 900Ti}},",
            "",
            6,
            "requests 900Ti of memory, but the node",
            "UnexpectedAdmissionError",
        ),
    ],
)
def test_pod_that_the_agent_rejects_is_an_error_before(
    agent: AgentProcess, tmp_path: Path, container: str, spec: str, line: int, message: str, reason: str
) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(_pod("wrong", container, spec))
    done = agent.cli("check", str(file))
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(rf"wrong\.yaml:{line}:\d+: error: Pod default/wrong: .*{message}.*; ", done.stdout), done.stdout
    assert f"checked against node 'testnode' of the agent at {agent.socket}" in done.stderr
    assert agent.cli("check", "--no-node", str(file)).returncode == (1 if "Unexpected" in reason else 0)
    path = agent.write_text("wrong.yaml", file.read_text())
    try:
        agent.wait_pod("wrong", lambda pod: pod.status.phase == "Failed" and pod.status.reason == reason)
    finally:
        path.unlink()
        agent.wait_gone("wrong")


def test_missing_objects_and_keys_are_errors(agent: AgentProcess, tmp_path: Path) -> None:
    file = tmp_path / "uses.yaml"
    file.write_text(_pod("uses", "envFrom: [{configMapRef: {name: setings}}],"))
    done = agent.cli("check", str(file))
    assert done.returncode == 1
    assert "no ConfigMap 'setings' in namespace 'default'; did you mean settings?" in done.stdout
    key = "env: [{name: A, valueFrom: {configMapKeyRef: {name: settings, key: mod}}}],"
    file.write_text(_pod("uses", key))
    assert "ConfigMap 'settings' has no key 'mod'; did you mean mode?" in agent.cli("check", str(file)).stdout
    file.write_text(_pod("uses", key.replace("mod}", "mode}")))
    done = agent.cli("check", "--node", str(file))
    assert (done.returncode, done.stdout) == (
        0,
        f"{file}: ok, Pod default/uses\n1 file checked, 0 errors, 0 warnings\n",
    )


def test_extended_resources_are_warnings_and_runtime_classes_errors(agent: AgentProcess, tmp_path: Path) -> None:
    file = tmp_path / "special.yaml"
    file.write_text(_pod("special", "resources: {limits: {example.com/gpu: 1}},", "  runtimeClassName: nosuch\n"))
    found = json.loads(agent.cli("check", "-o", "json", str(file)).stdout)["findings"]
    rules = {each["rule"]: each["severity"] for each in found}
    assert rules["extended-resource"] == "warning"
    if agent.api.get("/pykubelet/v1/node")["runtimeHandlers"]:  # older runtimes do not report them
        assert rules["runtime-class"] == "error"


def test_image_that_is_no_reference_is_an_error(agent: AgentProcess, tmp_path: Path) -> None:
    file = tmp_path / "image.yaml"
    file.write_text(_pod("image").replace("localhost/pykubelet/busybox:1", "Nginx:lat est"))
    done = agent.cli("check", str(file))
    assert done.returncode == 1
    assert re.search(r"image\.yaml:6:\d+: error: .*containers\[0\]\.image: 'Nginx:lat est' is no image", done.stdout)


def test_standard_input_is_checked_and_answered_as_json(agent: AgentProcess) -> None:
    def check(text: str) -> tuple[int, dict[str, Any]]:
        command = cli_command(agent.socket, "check", "-", "-o", "json")
        done = subprocess.run(command, input=text, capture_output=True, text=True, env=environment())
        return done.returncode, json.loads(done.stdout)

    status, answer = check(_pod("fine"))
    assert (status, answer["node"], answer["findings"]) == (0, agent.node_name, [])
    status, answer = check("services:\n  web: {image: nginx}\n")
    (finding,) = answer["findings"]
    assert (status, finding["line"], finding["rule"]) == (1, 1, "invalid-manifest")
    assert "Compose file" in finding["message"] and "kompose" in finding["remedy"]
    status, answer = check(f"{_pod('twice')}---\n{_pod('twice')}")
    assert status == 1 and "first on line 1" in answer["findings"][0]["message"], answer


def test_standard_input_has_one_name_in_all_commands(agent: AgentProcess) -> None:
    broken = _pod("broken").replace("image:", "imag:")
    for words in (("check", "-"), ("apply", "-f", "-"), ("diff", "-f", "-"), ("run-once", "-")):
        command = cli_command(agent.socket, *words)
        done = subprocess.run(command, input=broken, capture_output=True, text=True, env=environment())
        assert done.returncode != 0
        assert re.search(r"^<stdin>:6:\d+: error: .*imag: unknown field", done.stdout + done.stderr, re.M), words


def test_manifest_directory_of_the_agent_is_valid(agent: AgentProcess) -> None:
    done = agent.cli("check", str(agent.manifests))
    assert done.returncode == 0, done.stdout
    assert "taken.yaml: ok, Pod default/taken, ConfigMap default/settings" in done.stdout
