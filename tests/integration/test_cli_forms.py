"""kubectl's flags and forms, against a running agent."""

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from pykubelet.testing.agent import AgentProcess, cli_command, environment, wait_for
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.runtime import PrivateRuntime
from pykubelet.testing.terminal import Terminal
from tests.manifests import config_map, container, pod, secret, serving

pytestmark = [pytest.mark.root, pytest.mark.runtime]

BROKEN = "apiVersion: v1\nkind: Pod\nmetadata: {name: broken}\nspec:\n  containers:\n  - {name: a, imagee: b}\n"


@pytest.fixture(scope="module", autouse=True)
def shown(agent: AgentProcess) -> Iterator[None]:
    """The pods and objects that the commands are asked about."""
    agent.write(
        "forms.json",
        config_map("settings", {"k": "value"}),
        secret("key", {"password": "hidden"}),
        pod(
            "web",
            container(command=serving("echo up"), ports=[{"name": "http", "containerPort": 8080}]),
            initContainers=[container("once", ["sh", "-c", "echo done"])],
            metadata={"labels": {"app": "web"}},
        ),
        pod("db", container(command=serving("echo up")), metadata={"labels": {"app": "db"}, "namespace": "apart"}),
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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("get", "pods", "-l", "a b"), "invalid label selector 'a b': write KEY=VALUE"),
        (("get", "cm", "-l", "a in x"), "invalid label selector 'a in x'"),
        (("get", "pods", "-w", "-l", "a b"), "invalid label selector 'a b'"),
        (("logs", "-l", "a b"), "invalid label selector 'a b'"),
        (("delete", "pods", "-l", "a b"), "invalid label selector 'a b'"),
        (("wait", "--for=ready", "-l", "a b"), "invalid label selector 'a b'"),
        (("restart", "-l", "a b"), "invalid label selector 'a b'"),
        (("retry", "-l", "a b"), "invalid label selector 'a b'"),
        (("get", "pods", "--field-selector", "status.phase"), "invalid field selector 'status.phase'"),
        (("get", "events", "--field-selector", "color=red"), "field label not supported: color; supported: "),
        (("get", "problems", "-l", "a=b"), "problems cannot be selected"),
        (("get", "pods", "-o", "jsonpath={.items["), "jsonpath"),
        (("get", "pods", "-o", "custom-columns=NAME"), "custom-columns"),
        (("get", "pods", "--sort-by", ".items["), "--sort-by"),
        (("logs", "web", "--since", "1x"), "--since: '1x' is not a time span"),
        (("logs", "web", "--since", "0s"), "sinceSeconds"),
        (("logs", "web", "--since-time", "yesterday"), "--since-time: 'yesterday' is not a time"),
    ],
)
def test_wrong_values_of_options_are_wrong_usage(agent: AgentProcess, words: tuple[str, ...], said: str) -> None:
    done = agent.cli(*words)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


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


@pytest.mark.parametrize("words", [("get", "events"), ("describe", "web")])
def test_rows_are_not_broken_by_a_terminal_of_80_columns(agent: AgentProcess, words: tuple[str, ...]) -> None:
    whole = ok(agent, *words)
    assert max(map(len, whole.splitlines())) > 80, "or nothing is to be wrapped"
    with Terminal(cli_command(agent.socket, *words), {**environment(), "TERM": "xterm"}, size=(24, 80)) as terminal:
        assert terminal.end() == 0
    lines = terminal.shown.replace("\r", "").splitlines()
    # Ids have one word, which is left to the terminal so that it can be copied.
    assert [line for line in lines if len(line) > 80 and " ID:" not in line] == []


def test_exec_of_a_missing_command_says_so_once_with_127(agent: AgentProcess) -> None:
    missing = agent.cli("exec", "pod/web", "--", "nosuch")
    assert missing.returncode == 127
    assert (missing.stdout + missing.stderr).count("not found") == 1, missing.stdout + missing.stderr
    assert agent.cli("exec", "web", "--", "/nosuch").returncode == 127
    assert agent.cli("exec", "web", "--", "/etc").returncode == 126
    assert agent.cli("exec", "web", "--", "sh", "-c", "exit 7").returncode == 7
    stopped = agent.cli("exec", "web", "-c", "once", "--", "true")
    assert (stopped.returncode, "not running" in stopped.stderr) == (1, True)


def test_words_that_do_not_exist_are_answered_with_the_closest(agent: AgentProcess) -> None:
    for words, advice in (
        (("gett", "pods"), "did you mean get?"),
        (("logs", "wbe"), "did you mean web?"),
        (("logs", "web", "-c", "mian"), "did you mean main?"),
        (("describe", "pod", "wep"), "did you mean web?"),
    ):
        done = agent.cli(*words)
        assert done.returncode != 0
        assert advice in done.stderr


@pytest.mark.parametrize(
    "words", [("logs", "-f", "web"), ("logs", "web"), ("get", "pods", "-w"), ("get", "events"), ("explain", "web")]
)
def test_command_whose_reader_has_ended_exits_with_141(agent: AgentProcess, words: tuple[str, ...]) -> None:
    command = cli_command(agent.socket, *words)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        problem = process.stderr.read().decode()
        assert (process.wait(30 * PATIENCE), problem) == (141, "")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("describe", "pod"), "give the name of a pod behind 'pod'; existing pods: db, web"),
        (("delete", "pod"), "give the name of a pod behind 'pod'"),
        (("delete", "pods", "-l", "app=none"), "no pods of the manifest directory match the selection"),
        (("delete", "cm", "-l", "app=none"), "only pods can be selected with -l or --all; name the cm"),
        (("delete", __file__), "is not a kind of object here; files are named with -f"),
        (("delete", "pyproject.toml"), "the objects in a file: pykubelet delete -f pyproject.toml"),
        (("image", "import", "/nope.tar"), "error: /nope.tar: cannot be read: No such file or directory"),
        (("top", "pod", "wbe"), "pod 'wbe' not found; did you mean web?"),
    ],
)
def test_kinds_without_a_name_and_names_without_an_object(
    agent: AgentProcess, words: tuple[str, ...], problem: str
) -> None:
    done = agent.cli(*words)
    assert done.returncode != 0 and problem in done.stderr, done


def test_usage_is_printed_in_the_form_of_the_metrics_api(agent: AgentProcess) -> None:
    found = json.loads(ok(agent, "top", "pods", "web", "-o", "json"))
    (web,) = found["items"]
    assert (found["kind"], web["metadata"]["name"]) == ("PodMetricsList", "web-testnode")
    assert [each["name"] for each in web["containers"]] == ["main"] and "memory" in web["containers"][0]["usage"]


def test_events_are_listed_by_time(agent: AgentProcess) -> None:
    template = "jsonpath={range .items[*]}{.lastTimestamp}{'\\n'}{end}"
    times = ok(agent, "get", "events", "-o", template).split()
    assert len(times) > 4 and times == sorted(times)


def test_logs_of_several_containers_and_pods(agent: AgentProcess) -> None:
    every = "[pod/web-testnode/once] done\n[pod/web-testnode/main] up\n"
    assert ok(agent, "logs", "pod/web", "--all-containers", "--prefix") == every
    assert ok(agent, "logs", "-l", "app in (web,db)", "-c", "main", "--prefix").splitlines() == [
        "[pod/db-testnode/main] up",
        "[pod/web-testnode/main] up",
    ]
    began = ok(agent, "logs", "web", "-c", "main", "--timestamps").split()[0]
    assert ok(agent, "logs", "web", "-c", "main", "--since-time", began) == "up\n"
    assert ok(agent, "logs", "web", "-c", "main", "--since-time", "2100-01-01T00:00:00Z") == ""
    with watching(agent, "logs", "-f", "-l", "app", "-c", "main", "--prefix") as seen:
        wait_for(lambda: len(seen()) == 2, 10, lambda: "\n".join(seen()))


def test_describe_and_timeline_take_both_forms_and_name_the_file(agent: AgentProcess) -> None:
    path = agent.manifests / "forms.json"
    for words in (("pod", "web"), ("pod/web",), ("web",)):
        assert f"{path}\n" in ok(agent, "describe", *words)
        assert "web-testnode: " in ok(agent, "timeline", *words)
    good = path.read_text()
    agent.write_text("forms.json", good.replace('"containers"', '"containerz"', 1))
    try:
        wait_for(lambda: "containerz" in ok(agent, "describe", "web"), 10, lambda: ok(agent, "describe", "web"))
    finally:
        agent.write_text("forms.json", good)
    wait_for(lambda: "containerz" not in ok(agent, "describe", "web"), 10, lambda: ok(agent, "describe", "web"))


def test_ports_are_forwarded_by_name(agent: AgentProcess) -> None:
    with watching(agent, "port-forward", "web", ":http") as seen:
        wait_for(lambda: "-> 8080" in "".join(seen()), 10, lambda: "".join(seen()))
    done = agent.cli("port-forward", "web", "htp")
    assert (done.returncode, "did you mean http?" in done.stderr) == (2, True)


def test_completion_knows_pods_containers_namespaces_and_ports(agent: AgentProcess) -> None:
    for words, found in (
        (("logs", ""), {"web-testnode", "db-testnode"}),
        (("exec", "pod/w"), {"pod/web-testnode"}),
        (("logs", "web", "-c", ""), {"main", "once"}),
        (("get", "pods", "-n", "a"), {"apart"}),
        (("get", "sec"), {"secrets"}),
        (("port-forward", "web", "9000:"), {"9000:http", "9000:8080"}),
        (("restart", "web/"), {"web/main", "web/once"}),
        (("cp", "w"), {"web-testnode:"}),
        (("top", "pods", "d"), {"db-testnode"}),
        (("help", "gett"), set[str]()),
    ):
        variables = {
            "_PYKUBELET_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(("pykubelet", *words)),
            "COMP_CWORD": str(len(words)),
            "PYKUBELET_SOCKET": str(agent.socket),
        }
        command = [sys.executable, "-c", "from pykubelet.cli import main; main()"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment() | variables)
        assert {line.partition(",")[2] for line in done.stdout.splitlines() if line} == found, (words, done)


def test_bash_completes_words_with_colons_and_equals_signs(agent: AgentProcess, tmp_path: Path) -> None:
    variables = program_in(tmp_path, agent)
    with Terminal(["bash", "--norc", "--noprofile", "-i"], {**environment(), **variables}, size=(24, 200)) as terminal:
        terminal.type("source <(pykubelet completion bash); echo re''ady\n")
        # What is typed before the prompt is echoed as it is.
        terminal.until(lambda shown: re.search(r"\nready\r*\n[^\n]*[#$] $", shown))
        for number, (typed, completed) in enumerate(
            (
                ("port-forward web 9000:h", "port-forward web 9000:http "),
                ("cp web-t", "cp web-testnode:"),
                ("cp web-testnode:/nowhere", "cp web-testnode:/nowhere"),
                ("restart web/m", "restart web/main "),
                ("wait --for=r", "wait --for=ready "),
                ("get -l 'a b' sec", "get -l 'a b' secrets "),
            ),
            1,
        ):
            before = len(terminal.shown)
            # What is typed behind the Tab shows the end of the completion; Ctrl-U removes the line.
            terminal.type(f"pykubelet {typed}\t@")
            terminal.until(partial(_has_signs, number))
            shown = terminal.shown[before:].replace("\a", "")  # the bell: there is nothing to complete
            assert shown.endswith(f"pykubelet {completed}@"), shown
            terminal.type("\x15")
        terminal.type("exit\n")
        terminal.end()


COMPLETED = (
    ("port-forward web 9000:h", "port-forward web 9000:http "),
    ("cp web-t", "cp web-testnode:"),
    ("logs pod/w", "logs pod/web-testnode "),
    ("restart web/m", "restart web/main "),
    ("wait --for=r", "wait --for=ready "),
    ("get -n ap", "get -n apart "),
    ("top", "top "),
)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_completes_words(agent: AgentProcess, tmp_path: Path) -> None:
    variables = program_in(tmp_path, agent)
    with Terminal(["zsh", "-f", "-i"], {**environment(), **variables}, size=(24, 200)) as terminal:
        terminal.type(f"PS1='$ '; unset zle_bracketed_paste; autoload -U compinit; compinit -u -d {tmp_path}/dump\n")
        terminal.type("source <(pykubelet completion zsh); echo re''ady\n")
        terminal.until(lambda shown: re.search(r"\nready\r*\n[^\n]*[#$] ", shown))
        for typed, completed in COMPLETED:
            terminal.type(f"pykubelet {typed}\t@\x01echo '<\x05>'\n")
            terminal.until(partial(_has_line, f"<pykubelet {completed}@>"))
        terminal.type("exit\n")
        terminal.end()


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes_words(agent: AgentProcess, tmp_path: Path) -> None:
    variables = {**program_in(tmp_path, agent), "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    for typed, completed in COMPLETED:
        script = f"pykubelet completion fish | source; complete -C 'pykubelet {typed}'"
        done = subprocess.run(["fish", "-c", script], capture_output=True, text=True, env=environment() | variables)
        found = [line.partition("\t")[0] for line in done.stdout.splitlines()]
        assert found == [completed.split()[-1]], (typed, done)


def program_in(directory: Path, agent: AgentProcess) -> dict[str, str]:
    """Write the program ``pykubelet`` into a directory; return variables by which a shell finds it and the agent."""
    program = directory / "pykubelet"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m pykubelet.cli "$@"\n')
    program.chmod(0o755)
    return {"PYKUBELET_SOCKET": str(agent.socket), "PATH": f"{directory}:{os.environ['PATH']}", "TERM": "dumb"}


def _has_line(line: str, shown: str) -> bool:
    return f"\n{line}\n" in shown.replace("\r", "")


def _has_signs(number: int, shown: str) -> bool:
    return shown.count("@") >= number


def test_an_agent_is_found_without_naming_its_socket(isolation: Isolation, daemon: PrivateRuntime) -> None:
    home = isolation.home / "linked"
    links = {"PYKUBELET_AGENTS_DIR": str(home / "agents")}
    missing = ("--manifests", str(home / "missing"))  # the last one counts
    other = AgentProcess(home, daemon.endpoint, f"{isolation.cgroup_root}/linked", node_name="othernode", flags=missing)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYKUBELET_AGENTS_DIR", links["PYKUBELET_AGENTS_DIR"])
        patch.delenv("PYKUBELET_SOCKET", raising=False)  # of the user's shell
        other.start()
        try:
            command = [sys.executable, "-m", "pykubelet.cli", "get", "nodes", "-o", "name"]
            done = subprocess.run(command, capture_output=True, text=True, env=environment())
            assert (done.returncode, done.stdout) == (0, "node/othernode\n"), done
            assert (
                f"manifest directory missing: no pods until it is created path={home / 'missing'}" in other.log_tail()
            )
            named = {**environment(), "PYKUBELET_AGENTS_DIR": "", "PYKUBELET_SOCKET": str(other.socket)}
            done = subprocess.run(command, capture_output=True, text=True, env=named)
            assert (done.returncode, done.stdout) == (0, "node/othernode\n"), done
            forgotten = ("--config", str(other.config_file), "--root-dir", f"{home}/x", "--run-dir", f"{home}/y")
            done = subprocess.run(
                [*command[:3], "reset", "--dry-run", *forgotten], capture_output=True, text=True, env=environment()
            )
            assert (done.returncode, done.stdout) == (1, ""), done
            assert f"another agent runs, at {other.socket}, with pods in the same cgroups" in done.stderr
            other.stop()
            assert not (home / "agents").exists()
        finally:
            other.destroy()


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
