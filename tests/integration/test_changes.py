"""Commands that change what runs: apply, delete, wait, with the real agent."""

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykubelet.base.errors import Conflict
from pykubelet.testing.agent import AgentProcess, cli_command, environment
from pykubelet.testing.patience import PATIENCE
from tests.manifests import config_map, container, pod, sh, stubborn

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


# -- apply -------------------------------------------------------------------------------------------------------------


def test_apply_creates_configures_and_leaves_unchanged(agent: AgentProcess, tmp_path: Path) -> None:
    web = _manifest(tmp_path / "web.yaml", pod("web", container(envFrom=[])), config_map("settings", {"k": "v"}))
    assert _ok(agent, "apply", "-f", web, "--wait") == "configmap/settings created\npod/web created\n"
    first = agent.pod("web")
    assert [c.ready for c in first.status.container_statuses] == [True]
    assert _ok(agent, "apply", "-f", web, "--wait") == "configmap/settings unchanged\npod/web unchanged\n"
    assert agent.pod("web").metadata.uid == first.metadata.uid
    changed = _manifest(tmp_path / "web.yaml", pod("web", container(env=[{"name": "A", "value": "changed"}])))
    assert _ok(agent, "apply", "-f", changed, "--wait") == "pod/web configured\n"
    assert agent.exec("web", "echo $A").strip() == "changed"
    assert _files(agent).keys() == {"web.yaml", "settings.configmap.yaml"}


def test_apply_changes_the_file_that_holds_the_pod(agent: AgentProcess) -> None:
    agent.write("users.json", pod("one"), pod("two"))
    before = agent.wait_running("one", "two")
    document = json.dumps(pod("two", container(env=[{"name": "A", "value": "b"}])))
    assert _ok(agent, "apply", "-f", "-", "--wait", stdin=document) == "pod/two configured\n"
    assert _files(agent).keys() == {"users.json"}
    assert agent.pod("one").metadata.uid == before[0].metadata.uid
    assert agent.pod("two").metadata.uid != before[1].metadata.uid


def test_apply_dry_run_changes_nothing(agent: AgentProcess, tmp_path: Path) -> None:
    settings = config_map("settings", {"k": "v"})
    web = _manifest(tmp_path / "web.yaml", pod("web"), settings)
    for option in ("--dry-run", "--dry-run=client"):
        output = _ok(agent, "apply", "-f", web, option)
        assert output == "configmap/settings created (dry run)\npod/web created (dry run)\n"
        assert (_files(agent), agent.pods()) == ({}, {})
    _ok(agent, "apply", "-f", web, "--wait", "--dry-run=none")
    before = _files(agent)
    changed = _manifest(tmp_path / "web.yaml", pod("web", container(env=[{"name": "A", "value": "new"}])), settings)
    output = _ok(agent, "apply", "-f", changed, "--dry-run", "--wait")
    assert output == "configmap/settings unchanged (dry run)\npod/web configured (dry run)\n"
    assert _files(agent) == before
    assert _run(agent, "apply", "-f", changed, "--dry-run=server").returncode == 2


def test_apply_gives_objects_the_namespace_of_the_flag(agent: AgentProcess, tmp_path: Path) -> None:
    job = pod("job", container(command=sh("exit 0")), restartPolicy="Never")
    job["metadata"].pop("namespace", None)
    given = _manifest(tmp_path / "job.yaml", job)
    assert _ok(agent, "apply", "-f", given, "-n", "team-a", "--wait") == "pod/job created\n"
    assert [item["metadata"]["namespace"] for item in agent.api.get("/api/v1/pods")["items"]] == ["team-a"]
    assert _ok(agent, "apply", "-f", given, "-n", "team-a") == "pod/job unchanged\n"
    assert _ok(agent, "diff", "-f", given, "-n", "team-a") == ""
    done = _run(agent, "apply", "-f", given, "-n", "No Namespace")
    assert (done.returncode, "namespace" in done.stderr) == (1, True)
    job["metadata"]["namespace"] = "team-b"
    done = _run(agent, "apply", "-f", _manifest(tmp_path / "other.yaml", job), "-n", "team-a")
    assert (done.returncode, "has the namespace team-b, not team-a" in done.stderr) == (1, True)
    assert _ok(agent, "delete", "-f", given, "-n", "team-a") == 'pod "job" deleted\n'
    assert agent.pods() == {}


def test_apply_without_wait_returns_when_the_agent_has_the_pod(agent: AgentProcess, tmp_path: Path) -> None:
    for number in range(3):
        name = f"quick-{number}"
        _ok(agent, "apply", "-f", _manifest(tmp_path / "quick.json", pod(name)))
        assert name in agent.pods()


def test_apply_of_a_directory_with_a_problem_changes_nothing(agent: AgentProcess, tmp_path: Path) -> None:
    _manifest(tmp_path / "good.yaml", pod("good"))
    _manifest(tmp_path / "bad.yaml", pod("bad", container(imagee="x")))
    _manifest(tmp_path / "twice.yaml", pod("good"))
    _manifest(tmp_path / "image.yaml", pod("image", container(image="Not an image")))
    done = _run(agent, "apply", "-f", str(tmp_path))
    assert done.returncode == 1
    assert f"{tmp_path}/bad.yaml:1:" in done.stderr
    assert "imagee: unknown field" in done.stderr
    assert "is no image reference" in done.stderr
    assert f"is already given in {tmp_path}/good.yaml" in done.stderr
    assert "nothing was changed" in done.stderr
    assert _files(agent) == {}
    assert agent.pods() == {}


def test_apply_checks_against_the_node(agent: AgentProcess, tmp_path: Path) -> None:
    taken = [{"containerPort": 80, "hostPort": 31080}]
    agent.write("taken.json", pod("taken", container(ports=taken)))
    agent.wait_running("taken")
    other = _manifest(tmp_path / "other.yaml", pod("other", container(ports=taken)))
    done = _run(agent, "apply", "-f", other)
    assert (done.returncode, "31080" in done.stderr) == (1, True), done.stderr
    assert _files(agent).keys() == {"taken.json"}
    changed = _manifest(
        tmp_path / "taken.yaml", pod("taken", container(ports=taken, env=[{"name": "A", "value": "b"}]))
    )
    assert _ok(agent, "apply", "-f", changed, "--wait") == "pod/taken configured\n"
    waiting = _manifest(tmp_path / "waiting.yaml", pod("waiting", container(envFrom=[{"configMapRef": {"name": "c"}}])))
    done = _run(agent, "apply", "-f", waiting)
    assert done.returncode == 0
    assert "warning" in done.stderr
    assert "no ConfigMap 'c'" in done.stderr
    _ok(agent, "apply", "-f", _manifest(tmp_path / "c.yaml", config_map("c", {"k": "v"})))
    _ok(agent, "wait", "--for=ready", "waiting")


@pytest.mark.parametrize(
    ("text", "words"), [("{", "not valid YAML"), ("", "no object found"), ("kind: Deployment", "apiVersion")]
)
def test_apply_of_bad_input_changes_nothing(agent: AgentProcess, text: str, words: str) -> None:
    done = _run(agent, "apply", "-f", "-", stdin=text)
    assert done.returncode == 1
    assert words in done.stderr
    assert _files(agent) == {}


def test_apply_of_a_missing_file_or_without_a_file_is_refused(agent: AgentProcess, tmp_path: Path) -> None:
    missing = _run(agent, "apply", "-f", str(tmp_path / "none.yaml"))
    assert (missing.returncode, "none.yaml: the file does not exist" in missing.stderr) == (1, True)
    assert _run(agent, "apply").returncode == 2


def test_apply_to_a_read_only_directory(agent: AgentProcess, tmp_path: Path) -> None:
    _ok(agent, "apply", "-f", _manifest(tmp_path / "web.yaml", pod("web")), "--wait")
    mount = ["mount", "--bind", str(agent.manifests), str(agent.manifests)]
    subprocess.run(mount, check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(agent.manifests)], check=True)
        before = _files(agent)
        changed = _manifest(tmp_path / "web.yaml", pod("web", container(env=[{"name": "A", "value": "b"}])))
        for arguments in (("apply", "-f", changed), ("delete", "web")):
            done = _run(agent, *arguments)
            assert done.returncode == 1
            assert "Read-only file system; are you root" in done.stderr
        assert _files(agent) == before
    finally:
        # Not busy, even while the agent reads a file.
        subprocess.run(["umount", "--lazy", str(agent.manifests)], check=True)
    assert "web" in agent.pods()


def test_apply_wait_ends_at_a_failed_pod_and_at_the_time_limit(agent: AgentProcess, tmp_path: Path) -> None:
    probe = {"exec": {"command": ["false"]}}
    failing = container(command=sh("exit 3"), readinessProbe=probe)
    fails = _manifest(tmp_path / "fails.yaml", pod("fails", failing, restartPolicy="Never"))
    done = _run(agent, "apply", "-f", fails, "--wait")
    assert done.returncode == 1
    assert "pod/fails has ended: container main: Error, exit code 3" in done.stderr
    slow = _manifest(tmp_path / "slow.yaml", pod("slow", container(readinessProbe=probe)))
    done = _run(agent, "apply", "-f", slow, "--wait", "--timeout", "1s")
    assert done.returncode == 124
    assert "timed out waiting for pod/slow: " in done.stderr


def test_apply_wait_for_a_pod_that_ends(agent: AgentProcess, tmp_path: Path) -> None:
    job = _manifest(tmp_path / "job.yaml", pod("job", container(command=sh("exit 0")), restartPolicy="Never"))
    assert _ok(agent, "apply", "-f", job, "--wait") == "pod/job created\n"


def test_apply_wait_adds_little_to_the_start(agent: AgentProcess, tmp_path: Path) -> None:
    """The command ends soon after another client has seen the pod become ready."""
    seen: dict[str, float] = {}

    def observe() -> None:
        for _, item in agent.api.watch("/api/v1/pods", time.monotonic() + 60 * PATIENCE):
            conditions = item.get("status", {}).get("conditions", ())
            if any(each["type"] == "Ready" and each["status"] == "True" for each in conditions):
                seen[item["metadata"]["name"]] = time.monotonic()
                return

    observer = threading.Thread(target=observe)
    observer.start()
    _ok(agent, "apply", "-f", _manifest(tmp_path / "timed.yaml", pod("timed")), "--wait")
    ended = time.monotonic()
    observer.join()
    # 3 to 27 ms on a machine with a load of 10; the interpreter's own clean-up took 280 to 680 ms there.
    assert ended - seen["timed-testnode"] < 0.2 * PATIENCE


def test_commands_without_an_agent(agent: AgentProcess, tmp_path: Path) -> None:
    web = _manifest(tmp_path / "web.yaml", pod("web"))
    for arguments in (("apply", "-f", web), ("delete", "web"), ("wait", "--for=ready", "web")):
        done = subprocess.run(
            cli_command(tmp_path / "none.sock", *arguments), capture_output=True, text=True, env=environment()
        )
        assert done.returncode == 1
        assert "no agent responds at" in done.stderr
        assert "pykubelet run" in done.stderr


# -- delete ------------------------------------------------------------------------------------------------------------


def test_delete_waits_until_the_pod_is_gone(agent: AgentProcess) -> None:
    agent.write("both.json", pod("one"), config_map("kept", {"k": "v"}))
    agent.write("two.json", pod("two"))
    agent.wait_running("one", "two")
    assert _ok(agent, "delete", "pod/one", "two-testnode") == 'pod "one" deleted\npod "two" deleted\n'
    assert agent.pods() == {}
    assert _files(agent).keys() == {"both.json"}
    assert _ok(agent, "delete", "cm", "kept") == 'configmap "kept" deleted\n'
    assert _files(agent) == {}


def test_delete_by_file_or_label_removes_the_selected_objects(agent: AgentProcess, tmp_path: Path) -> None:
    given = _manifest(tmp_path / "given.yaml", config_map("c", {"k": "v"}), pod("one"))
    labelled = pod("two", metadata={"labels": {"app": "web"}})
    _ok(agent, "apply", "-f", given, "-f", _manifest(tmp_path / "two.yaml", labelled), "--wait")
    assert _ok(agent, "delete", "-f", given) == 'pod "one" deleted\nconfigmap "c" deleted\n'
    assert agent.pods().keys() == {"two"}
    assert _run(agent, "delete", "-l", "app=other").returncode == 1
    assert _ok(agent, "delete", "-l", "app=web") == 'pod "two" deleted\n'
    assert agent.pods() == {}


def test_delete_without_waiting_returns_and_with_a_time_limit_times_out(agent: AgentProcess) -> None:
    agent.write("slow.json", pod("slow", container(command=stubborn()), terminationGracePeriodSeconds=8))
    agent.wait_running("slow")
    assert _ok(agent, "delete", "slow", "--wait=false") == 'pod "slow" deleted\n'
    assert "slow" in agent.pods()
    agent.wait_gone("slow")
    agent.write("slow.json", pod("slow", container(command=stubborn()), terminationGracePeriodSeconds=8))
    agent.wait_running("slow")
    done = _run(agent, "delete", "slow", "--timeout", "500ms")
    assert done.returncode == 124
    assert "timed out waiting for pod/slow-testnode: it still exists" in done.stderr


def test_delete_with_a_grace_period_of_its_own(agent: AgentProcess) -> None:
    stubborn_pod = pod("slow", container(command=stubborn()), terminationGracePeriodSeconds=600)
    for option in ("--now", "--grace-period=0", "--grace-period=2"):
        agent.write("slow.json", stubborn_pod)
        agent.wait_running("slow")
        assert _ok(agent, "delete", "slow", option) == 'pod "slow" deleted\n'
        assert agent.pods() == {}
    agent.write("slow.json", stubborn_pod)
    agent.wait_running("slow")
    uid = agent.pod("slow").metadata.uid
    with pytest.raises(Conflict, match="is not being deleted: remove its manifest first"):
        agent.api.post(f"/pykubelet/v1/stop/{uid}", gracePeriodSeconds=0)
    assert _run(agent, "delete", "slow", "--now", "--grace-period=5").returncode == 2
    assert _run(agent, "delete", "slow", "--grace-period=-2").returncode == 2
    assert "slow" in agent.pods()
    assert _ok(agent, "delete", "slow", "--now") == 'pod "slow" deleted\n'


def test_delete_of_several_goes_on_after_one_that_cannot_be_deleted(agent: AgentProcess, tmp_path: Path) -> None:
    broken = agent.manifests / "broken.yaml"
    broken.write_text(f"{json.dumps(config_map('first', {'k': 'v'}))}\n---\n{{\n")
    agent.write("second.json", config_map("second", {"k": "v"}))
    maps = (config_map(name, {}) for name in ("first", "none", "second"))
    given = _manifest(tmp_path / "given.yaml", *maps)
    done = _run(agent, "delete", "-f", given)
    assert (done.returncode, done.stdout) == (1, 'configmap "second" deleted\n')
    assert "broken.yaml" in done.stderr
    assert "ConfigMap default/none is in no file" in done.stderr
    assert _files(agent).keys() == {"broken.yaml"}
    broken.unlink()


def test_delete_of_unknown_objects(agent: AgentProcess) -> None:
    done = _run(agent, "delete", "none")
    assert (done.returncode, "pod 'none' not found" in done.stderr) == (1, True)
    done = _run(agent, "delete", "cm/none")
    assert (done.returncode, "ConfigMap default/none is in no file" in done.stderr) == (1, True)
    for words in (("cm/none",), ("none",), ("pod", "none"), ("pod/none", "cm/none"), ("-l", "app=none")):
        assert _run(agent, "delete", *words).returncode == 1
        assert _ok(agent, "delete", *words, "--ignore-not-found") == ""
    assert _run(agent, "delete").returncode == 2
    assert _run(agent, "delete", "deployment/x").returncode == 2


# -- wait --------------------------------------------------------------------------------------------------------------


def test_wait_for_ready_completed_deleted(agent: AgentProcess) -> None:
    agent.write("job.json", pod("job", container(command=sh("sleep 1")), restartPolicy="Never"))
    agent.write("web.json", pod("web"))
    _ok(agent, "wait", "--for=create", "job", "web")
    assert _ok(agent, "wait", "--for=ready", "web") == "pod/web-testnode condition met\n"
    assert _ok(agent, "wait", "--for=condition=Ready", "pod/web") == "pod/web-testnode condition met\n"
    assert _ok(agent, "wait", "--for=jsonpath={.status.phase}=Running", "web") == "pod/web-testnode condition met\n"
    assert _ok(agent, "wait", "--for=completed", "job") == "pod/job-testnode condition met\n"
    done = _run(agent, "wait", "--for=completed", "web", "--timeout=300ms")
    assert (done.returncode, "timed out waiting for pod/web-testnode" in done.stderr) == (124, True)
    done = _run(agent, "wait", "--for=ready", "--all", "--timeout=10s")
    assert (done.returncode, "pod/job-testnode has ended" in done.stderr) == (1, True)
    waiting = subprocess.Popen(
        cli_command(agent.socket, "wait", "--for=delete", "web", "--timeout=60s"),
        stdout=subprocess.PIPE,
        env=environment(),
    )
    (agent.manifests / "web.json").unlink()
    output, _ = waiting.communicate(timeout=60 * PATIENCE)
    assert (waiting.returncode, output) in (
        (0, b"pod/web-testnode condition met\n"),
        (0, b""),  # the pod was gone before the command listed it
    )


def test_wait_for_a_pod_that_fails(agent: AgentProcess) -> None:
    agent.write("fails.json", pod("fails", container(command=sh("sleep 0.3; exit 4")), restartPolicy="Never"))
    _ok(agent, "wait", "--for=create", "fails")
    done = _run(agent, "wait", "--for=completed", "fails")
    assert done.returncode == 1
    assert "exit code 4" in done.stderr


def test_wait_with_wrong_arguments_exits_with_a_usage_error(agent: AgentProcess) -> None:
    assert _run(agent, "wait", "web").returncode == 2
    assert _run(agent, "wait", "--for=ready").returncode == 2
    assert _run(agent, "wait", "--for=nonsense", "web").returncode == 2
    assert _run(agent, "wait", "--for=ready", "none").returncode == 1
