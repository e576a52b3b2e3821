"""Broken or hostile manifests: they are reported, and running pods keep running."""

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from pykubelet.models.core_v1 import Pod
from pykubelet.testing.agent import AgentProcess, container_status, wait_for
from pykubelet.testing.patience import PATIENCE
from tests.manifests import Apply, config_map, container, pod

pytestmark = [pytest.mark.root, pytest.mark.runtime]

_GOOD = json.dumps(pod("victim"))
_BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
_POD_WITHOUT = "apiVersion: v1\nkind: Pod\nmetadata: {name: victim}\nspec:\n  "


def _case(name: str, content: str | bytes, reported: str) -> ParameterSet:
    return pytest.param(content, reported, id=name)


_CASES = [
    _case("no-yaml", "kind: Pod\n  metadata: [", ":2"),
    _case("half-written", _GOOD[: len(_GOOD) // 2], ""),
    _case("empty-object", "{}", "kind"),
    _case("oversized", "# " + "x" * (11 << 20), "10"),
    _case("bomb", _BOMB, ""),
    _case("nul", _GOOD.replace("victim", "vic\\u0000tim"), "metadata.name"),
    _case("half-pair", _GOOD.replace("victim", "vic\\ud800tim"), "metadata.name"),
    _case("half-pair-in-a-key", _GOOD.replace('"name": "victim"', '"name": "victim", "x\\udfff": ""'), "metadata.x"),
    _case("nul-byte", _GOOD.encode().replace(b"victim", b"vic\0tim"), ""),
    _case("binary", bytes(range(256)) * 16, ""),
    _case("unknown-field", _POD_WITHOUT + "contaners: []", "spec.contaners"),
    _case("wrong-type", _POD_WITHOUT + "containers: nothing", "spec.containers"),
    _case("no-containers", _POD_WITHOUT + "containers: []", "spec.containers"),
    _case("bad-name", _GOOD.replace("victim", "Not_A_Name"), "metadata.name"),
    _case("bad-quantity", json.dumps(pod("victim", container(resources={"limits": {"cpu": "much"}}))), "limits"),
    _case("same-container-twice", json.dumps(pod("victim", container(), container())), "spec.containers[1].name"),
    _case("other-kind", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n", "Deployment"),
    _case("duplicate-key", "apiVersion: v1\nkind: Pod\nkind: Pod\n", "kind"),
    _case(
        "no-volume",
        json.dumps(pod("victim", container(volumeMounts=[{"name": "v", "mountPath": "/v"}]))),
        "volumeMounts",
    ),
    _case("git-repo", _POD_WITHOUT + "volumes: [{name: v, gitRepo: {repository: x}}]\n  containers: []", "gitRepo"),
]


@pytest.fixture(scope="module")
def bystander(agent: AgentProcess) -> Iterator[Pod]:
    """A valid pod in a separate file."""
    path = agent.write("bystander.json", pod("bystander"))
    yield agent.wait_running("bystander")[0]
    path.unlink(missing_ok=True)


def _problems(agent: AgentProcess, file: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = agent.api.get("/pykubelet/v1/problems")["items"]
    return [item for item in items if file in item["subject"] + item["message"]]


def _is_same(agent: AgentProcess, before: Pod) -> bool:
    now = agent.pod(before.metadata.name.removesuffix(f"-{agent.node_name}"))
    return (now.metadata.uid, container_status(now).container_id, container_status(now).restart_count) == (
        before.metadata.uid,
        container_status(before).container_id,
        0,
    )


@pytest.mark.parametrize(("content", "reported"), _CASES)
def test_invalid_edit_of_manifest_keeps_pod_running(
    agent: AgentProcess, apply: Apply, bystander: Pod, content: str | bytes, reported: str
) -> None:
    apply("edited", pod("victim"))
    before = agent.wait_running("victim")[0]
    path = agent.write_text("edited.json", content)
    wait_for(lambda: bool(_problems(agent, "edited.json")), 5, lambda: f"no problem\n{agent.log_tail()}")
    shown = _problems(agent, "edited.json")
    assert any(reported in problem["message"] for problem in shown), shown
    check = agent.cli("check", str(path))
    assert check.returncode == 1
    assert "edited.json" in check.stdout
    assert reported in check.stdout
    assert _is_same(agent, before)
    assert _is_same(agent, bystander)
    agent.write("edited.json", pod("victim"))
    wait_for(lambda: not _problems(agent, "edited.json"), 5, lambda: str(_problems(agent, "edited.json")))
    assert _is_same(agent, before)


def test_command_of_references_without_an_end_delays_no_other_pod(agent: AgentProcess, apply: Apply) -> None:
    apply("open", pod("open", container(command=["sh", "-c", "sleep 3600", "$(" * 60_000])))
    assert agent.slowest_answer("open") < 5 * PATIENCE


def test_pod_in_two_files_runs_once(agent: AgentProcess, apply: Apply) -> None:
    apply("first", pod("twice", container("one")))
    before = agent.wait_running("twice")[0]
    apply("second", pod("twice", container("two")))
    wait_for(lambda: bool(_problems(agent, "second.json")), 5, agent.log_tail)
    assert "twice" in _problems(agent, "second.json")[0]["message"]
    assert _is_same(agent, before)
    directory = agent.cli("check", str(agent.manifests))
    assert directory.returncode == 1
    assert "twice" in directory.stdout


def test_a_file_with_good_and_bad_documents(agent: AgentProcess, apply: Apply) -> None:
    bad = pod("mixed-bad", container(image=""))
    apply("mixed", config_map("mixed", {"k": "v"}), pod("mixed-good"), bad)
    agent.wait_running("mixed-good")
    assert "mixed-bad" not in agent.pods()
    assert "image" in _problems(agent, "mixed.json")[0]["message"]


def test_other_files_in_the_directory(agent: AgentProcess, apply: Apply, bystander: Pod) -> None:
    """Hidden files, directories, dangling links and unreadable files have no effect."""
    agent.write_text(".hidden.yaml", "not: [yaml")
    (agent.manifests / "directory").mkdir()
    (agent.manifests / "dangling.yaml").symlink_to("/nowhere")
    try:
        apply("after", pod("after"))
        agent.wait_running("after")
        assert not _problems(agent, ".hidden.yaml")
        assert _is_same(agent, bystander)
    finally:
        (agent.manifests / ".hidden.yaml").unlink()
        (agent.manifests / "directory").rmdir()
        (agent.manifests / "dangling.yaml").unlink()


def test_agent_started_with_hostile_manifests_runs_the_good_ones(
    agent: AgentProcess, apply: Apply, bystander: Pod
) -> None:
    """The files are in the directory when the agent starts, and at its next start."""
    half = json.dumps(pod("half", container(env=[{"name": "X", "value": "\ud800"}])))
    hostile = {
        "half.json": half.encode(),
        "deep.json": b'{"a": "\\ud83d\\ude00", "b": ' + b"[" * 200_000,
        os.fsdecode(b"br\xff\nken.yaml"): b"half: [",
        os.fsdecode(b"caf\xe9.yaml"): json.dumps(pod("named")).encode(),
    }
    assert agent.stop() == 0
    paths = [agent.write_text(name, content) for name, content in hostile.items()]
    try:
        for _ in range(2):
            agent.start()
            agent.wait_running("bystander", "named")
            assert _is_same(agent, bystander)
            reported = {"half.json": "env[0].value", "deep.json": "levels deep", "br\\xff\\nken.yaml": "not valid YAML"}
            for name, text in reported.items():
                assert any(text in problem["message"] for problem in _problems(agent, name)), name
            assert agent.cli("doctor").returncode in (0, 1)
            assert agent.stop() == 0
        for path in paths[:3]:
            check = agent.cli("check", str(path))
            assert check.returncode == 1, check.stdout
            assert check.stderr.endswith("\n1 file checked, 1 error, 0 warnings\n"), check.stderr
        assert agent.cli("check", "-q", str(agent.manifests)).returncode == 1
    finally:
        if agent.process is None:
            agent.start()
        for path in paths:
            path.unlink()
    agent.wait_gone("named")
