"""run-once, diff and cp, with the real agent."""

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykubelet.testing.agent import (
    AgentProcess,
    cli_command,
    environment,
)
from pykubelet.testing.patience import PATIENCE
from tests.manifests import config_map, container, pod, sh

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


# -- run-once ----------------------------------------------------------------------------------------------------------


def test_run_once_shows_the_output_and_exits_with_the_status(agent: AgentProcess, tmp_path: Path) -> None:
    script = sh("echo out $MODE; echo err >&2; exit 7")
    settings = {"configMapRef": {"name": "settings"}}
    job = pod("job", container(command=script, envFrom=[settings]))
    given = _manifest(tmp_path / "job.yaml", job, config_map("settings", {"MODE": "once"}))
    done = _run(agent, "run-once", given)
    assert (done.returncode, done.stdout, done.stderr) == (7, "out once\n", "err\n")
    assert _files(agent) == {}
    assert agent.pods() == {}


def test_run_once_takes_the_file_as_other_commands_do(agent: AgentProcess, tmp_path: Path) -> None:
    main = container(command=["sh", "-c", "echo once"])
    file = _manifest(tmp_path / "job.yaml", pod("job", main))
    done = _run(agent, "run-once", "-f", file)
    assert (done.returncode, done.stdout) == (0, "once\n"), done.stderr


def test_run_once_with_several_containers_names_them(agent: AgentProcess) -> None:
    job = pod(
        "job",
        container("one", sh("echo first")),
        container("two", sh("echo second")),
        initContainers=[container("prepare", sh("echo prepared"))],
    )
    done = _run(agent, "run-once", "-", stdin=json.dumps(job))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[one] first", "[prepare] prepared", "[two] second"]


def test_run_once_that_cannot_start(agent: AgentProcess, tmp_path: Path) -> None:
    job = _manifest(tmp_path / "job.yaml", pod("job", container(image="localhost:1/none:1")))
    done = _run(agent, "run-once", job)
    assert done.returncode == 1
    assert "cannot start: container main: " in done.stderr
    assert agent.pods() == {}


def test_run_once_at_its_time_limit_and_at_ctrl_c(agent: AgentProcess, tmp_path: Path) -> None:
    job = _manifest(tmp_path / "job.yaml", pod("job", container(command=sh("echo on; sleep 1000"))))
    done = _run(agent, "run-once", job, "--timeout", "2s")
    assert (done.returncode, "did not end within 2 s" in done.stderr) == (124, True)
    assert agent.pods() == {}
    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        running = subprocess.Popen(
            cli_command(agent.socket, "run-once", job), stdout=subprocess.PIPE, env=environment()
        )
        assert running.stdout is not None
        assert running.stdout.readline() == b"on\n"
        running.send_signal(number)
        assert running.wait(timeout=60 * PATIENCE) == status
        running.stdout.close()
        assert (_files(agent), agent.pods()) == ({}, {})


def test_run_once_refuses_pods_that_exist_or_never_end(agent: AgentProcess, tmp_path: Path) -> None:
    agent.write("web.json", pod("web"))
    agent.wait_running("web")
    done = _run(agent, "run-once", _manifest(tmp_path / "web.yaml", pod("web")))
    assert (done.returncode, "exists already" in done.stderr) == (1, True)
    done = _run(agent, "run-once", _manifest(tmp_path / "web.yaml", pod("other", restartPolicy="Always")))
    assert (done.returncode, "never ends" in done.stderr) == (2, True)
    done = _run(agent, "run-once", _manifest(tmp_path / "web.yaml", config_map("c", {"k": "v"})))
    assert (done.returncode, "0 pods" in done.stderr) == (2, True)
    assert _files(agent).keys() == {"web.json"}


def test_killed_run_once_leaves_objects_that_doctor_names_and_the_next_one_removes(
    agent: AgentProcess, tmp_path: Path
) -> None:
    given = _manifest(tmp_path / "endless.yaml", pod("endless", container(command=sh("echo up; sleep 1000"))))
    command = cli_command(agent.socket, "run-once", given)
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"up\n"
        assert "was left by a run-once" not in _run(agent, "doctor").stdout
        run.kill()
    assert "Pod default/endless was left by a run-once that was killed" in _run(agent, "doctor").stdout
    job = _manifest(tmp_path / "job.yaml", pod("job", container(command=sh("echo done"))))
    done = _run(agent, "run-once", job)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert "Pod default/endless of a run-once that was killed is removed" in done.stderr
    assert _files(agent) == {}


# -- diff --------------------------------------------------------------------------------------------------------------


def test_diff_exits_as_diff_does(agent: AgentProcess, tmp_path: Path) -> None:
    key = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"k": "hidden"}}
    web = _manifest(tmp_path / "web.yaml", pod("web"), config_map("c", {"k": "old"}), key)
    new = _run(agent, "diff", "-f", web)
    assert (new.returncode, "+kind: Pod\n" in new.stdout) == (1, True)
    assert "hidden" not in new.stdout
    _ok(agent, "apply", "-f", web, "--wait")
    same = _run(agent, "diff", "-f", web)
    assert (same.returncode, same.stdout, same.stderr) == (0, "", "")
    labelled = pod("web", metadata={"labels": {"app": "web"}})
    changed_key = {**key, "stringData": {"k": "other"}}
    changed = _manifest(tmp_path / "web.yaml", labelled, config_map("c", {"k": "new"}), changed_key)
    done = _run(agent, "diff", "-f", changed)
    assert done.returncode == 1
    for line in ("--- agent/pod/default/web\n", "+++ file/pod/default/web\n", "+    app: web\n", "-  k: old\n"):
        assert line in done.stdout
    assert "+  k: '*** (after)'" in done.stdout
    assert "other" not in done.stdout
    assert _run(agent, "diff", "-f", str(tmp_path / "none.yaml")).returncode == 2
    assert _run(agent, "diff", "-f", "-", stdin="{").returncode == 2


# -- cp ----------------------------------------------------------------------------------------------------------------


def test_cp_copies_files_and_directories_both_ways(agent: AgentProcess, tmp_path: Path) -> None:
    agent.write("web.json", pod("web", container("main"), container("other")))
    agent.wait_running("web")
    tree = tmp_path / "tree"
    (tree / "below").mkdir(parents=True)
    (tree / "below" / "script").write_bytes(b"#!/bin/sh\n" + bytes(range(256)) * 1000)
    (tree / "below" / "script").chmod(0o755)
    (tree / "link").symlink_to("below/script")
    assert _ok(agent, "cp", str(tree), "web:/tmp/") == ""
    assert agent.exec("web", "ls /tmp/tree/below; readlink /tmp/tree/link").split() == ["script", "below/script"]
    assert _ok(agent, "cp", "default/web:/tmp/tree", str(tmp_path / "back")) == ""
    assert (tmp_path / "back" / "below" / "script").read_bytes() == (tree / "below" / "script").read_bytes()
    assert (tmp_path / "back" / "below" / "script").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "back" / "link").readlink() == Path("below/script")
    (tmp_path / "one").write_text("content")
    _ok(agent, "cp", str(tmp_path / "one"), "web:/tmp/renamed", "-c", "other")
    assert agent.exec("web", "cat /tmp/renamed", "other") == "content"
    _ok(agent, "cp", "pod/web:/tmp/renamed", str(tmp_path / "back"), "-c", "other")
    assert (tmp_path / "back" / "renamed").read_text() == "content"


def test_cp_of_links_that_lead_out(agent: AgentProcess, tmp_path: Path) -> None:
    agent.write("web.json", pod("web"))
    agent.wait_running("web")
    agent.exec(
        "web",
        "mkdir /tmp/d; ln -s /etc/passwd /tmp/d/out; ln -s ../.. /tmp/d/up; mkfifo /tmp/d/pipe; echo x > /tmp/d/f",
    )
    done = _run(agent, "cp", "web:/tmp/d", str(tmp_path / "d"))
    assert done.returncode == 1
    assert done.stderr.count("warning: ") == 3
    assert [path.name for path in (tmp_path / "d").iterdir()] == ["f"]


def test_failing_cp_exits_with_the_cause(agent: AgentProcess, tmp_path: Path) -> None:
    agent.write("web.json", pod("web"))
    agent.wait_running("web")
    for words, status, expected in (
        (("web:/none", str(tmp_path / "x")), 1, "tar in container main of pod web-testnode failed for /none"),
        ((str(tmp_path / "none"), "web:/tmp"), 1, "none does not exist"),
        (("web:/etc/passwd", str(tmp_path / "no" / "x")), 1, "no does not exist"),
        ((str(tmp_path), "web:/none/x"), 1, "failed for /none/x"),
        (("web:/a", "web:/b"), 2, "exactly one"),
        (("a", "b"), 2, "exactly one"),
        (("web:", "b"), 2, "name a path"),
    ):
        done = _run(agent, "cp", *words)
        assert (done.returncode, expected in done.stderr) == (status, True), (words, done.stderr)
