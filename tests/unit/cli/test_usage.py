"""Suggestions, help, versions, exit statuses, and the search for the agent's socket."""

import errno
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner

import pykubelet
from pykubelet.base.errors import Invalid
from pykubelet.cli.app import cli
from pykubelet.cli.client import agent_socket
from pykubelet.cli.client.agent_socket import default_socket, linked, running_agents
from pykubelet.cli.client.local_api import NoPermission
from pykubelet.cli.exit_status import MEANINGS, ExitStatus
from pykubelet.testing.agent import environment

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (("gett", "pods"), "there is no command 'gett'; did you mean get?"),
        (("port-foward",), "did you mean port-forward?"),
        (("image", "lst"), "there is no command 'lst'; did you mean ls?"),
        (("help", "discribe"), "did you mean describe?"),
        (("zzzz",), "the commands are run, criserver, "),
        (("get", "--all-namespace"), "--all-namespaces"),
        (("apply", "web.yaml"), "name files with -f: pykubelet apply -f web.yaml"),
        (("diff", "web.yaml"), "name files with -f: pykubelet diff -f web.yaml"),
        (("describe", "node"), "describe shows pods; for nodes: pykubelet get nodes -o yaml"),
        (("explain", "a", "b"), "name one pod; these are a, b"),
        (("run-once",), "name one file; for example: pykubelet run-once job.yaml"),
        (("run-once", "a.yaml", "-f", "b.yaml"), "name one file"),
        (("get",), "name a kind: pods, events, configmaps, secrets, nodes, images, problems; for example"),
    ],
)
def test_a_wrong_word_is_answered_with_the_closest_one(words: tuple[str, ...], advice: str) -> None:
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == ExitStatus.USAGE
    assert advice in done.stderr


def test_errors_of_all_kinds_begin_alike(tmp_path: Path) -> None:
    for words in (("get",), ("get", "pods"), ("logs", "web", "--since", "1x")):
        done = run(tmp_path / "none", *words)
        assert re.search("^error: ", done.stderr, re.MULTILINE), done.stderr


def test_users_who_may_not_ask_the_agent_can_use_the_other_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As another user than root sees the socket of root's agent; root itself may read any file."""
    path, manifest = tmp_path / "agent.sock", tmp_path / "web.yaml"
    path.touch()
    manifest.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: a}]}\n")

    def refused(_: object, address: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("os.access", lambda file, *_, **__: str(file) != str(path))
    monkeypatch.setattr("socket.socket.connect", refused)
    for words in (("version",), ("help", "get"), ("completion", "bash"), ("check", str(manifest))):
        done = CliRunner().invoke(cli, ["--socket", str(path), *words])
        assert done.exit_code == ExitStatus.DONE, (words, done.output)
    done = CliRunner().invoke(cli, ["--socket", str(path), "get", "pods"])
    assert isinstance(done.exception, NoPermission)
    assert "root" in str(done.exception)


@pytest.mark.parametrize("words", [("run", "--manifests", "."), ("reset",), ("install",)])
def test_commands_that_need_root_say_so_and_not_that_a_directory_is_not_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setattr("os.access", lambda file, *_, **__: str(file) != str(tmp_path))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    option = "--unit-dir" if words == ("install",) else "--run-dir"
    done = CliRunner().invoke(cli, [*words, option, str(tmp_path)])
    assert isinstance(done.exception, Invalid), done.output
    assert "must run as root" in str(done.exception)


def test_version_and_help_print_usage_of_commands() -> None:
    version = CliRunner().invoke(cli, ["--version"])
    assert (version.exit_code, version.output.split()[:2]) == (0, ["pykubelet", f"{pykubelet.__version__},"])
    for words, usage in (
        (["help"], "[OPTIONS] COMMAND"),
        (["help", "image", "pull"], "image pull [OPTIONS] REFERENCE"),
    ):
        done = CliRunner().invoke(cli, words)
        assert (done.exit_code, usage in done.output) == (0, True), done.output
    assert CliRunner().invoke(cli, ["help", "get"]).output == CliRunner().invoke(cli, ["get", "--help"]).output


@pytest.mark.parametrize("words", [(), ("image",)])
def test_lists_of_commands_have_whole_sentences(words: tuple[str, ...]) -> None:
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(cli, [*words, "--help"]).output
    assert "..." not in shown.partition("Commands:")[2]


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_no_color_switches_colours_off(no_color: str, coloured: bool) -> None:
    done = CliRunner(env={"NO_COLOR": no_color}).invoke(cli, ["doctor"], color=True)
    assert "cgroups" in done.output
    assert ("\x1b[" in done.output) == coloured


def test_the_table_of_exit_statuses_is_that_of_the_code() -> None:
    text = (ROOT / "docs/command-line.md").read_text()
    table = {int(number): words for number, words in re.findall(r"^\| (\d+) \| (.*) \|$", text, re.MULTILINE)}
    assert table == {int(status): words for status, words in MEANINGS.items()}


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("version",), ExitStatus.DONE),
        (("get", "pods"), ExitStatus.FAILED),
        (("check", "/nonexistent.yaml"), ExitStatus.FAILED),
        (("get",), ExitStatus.USAGE),
        (("logs", "web", "--since", "1x"), ExitStatus.USAGE),
        (("logs",), ExitStatus.USAGE),
        (("logs", "web", "--since-time", "2026"), ExitStatus.USAGE),
        (("logs", "web", "--since-time", "2026-01-31T12:00:00"), ExitStatus.USAGE),
        (("logs", "web", "--since-time", "2026-01-31T12:00:00Z"), ExitStatus.FAILED),
        (("image", "ls"), ExitStatus.FAILED),
        (("image", "import", "/nonexistent.tar"), ExitStatus.FAILED),
        (("logs", "web", "--all-containers", "-c", "a"), ExitStatus.USAGE),
    ],
)
def test_command_exits_with_the_status_of_its_outcome(
    tmp_path: Path, words: tuple[str, ...], status: ExitStatus
) -> None:
    done = run(tmp_path / "none", *words)
    assert done.returncode == status, done.stderr


def run(socket: Path, *words: str, prefix: Sequence[str] = ()) -> "subprocess.CompletedProcess[str]":
    command = [*prefix, sys.executable, "-m", "pykubelet.cli", "--socket", str(socket), *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment())


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Path]:
    """A directory that only another user may enter."""
    (tmp_path / "run").mkdir(mode=0)
    yield tmp_path / "run"
    (tmp_path / "run").chmod(0o700)


_UNPRIVILEGED = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
"""Runs a program that may not enter what is closed to its user. Another user could not run this interpreter."""


@pytest.mark.parametrize(
    "words",
    [
        ("get", "pods"),
        ("image", "ls"),
        ("top", "-w"),
        ("logs", "web"),
        ("apply", "-f", "README.md"),
        ("explain", "web"),
    ],
)
def test_user_who_may_not_ask_the_agent_is_advised_to_be_root(closed: Path, words: tuple[str, ...]) -> None:
    socket = closed / "agent.sock"
    done = run(socket, *words, prefix=_UNPRIVILEGED)
    problem = f"error: no permission to connect to the agent at {socket}; run the command as root, as with sudo\n"
    assert (done.returncode, done.stderr) == (ExitStatus.FAILED, problem)


def test_commands_that_need_no_agent_work_for_every_user(closed: Path, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: a, image: i}]}}"
    )
    socket = closed / "agent.sock"
    version = run(socket, "version", prefix=_UNPRIVILEGED)
    assert (version.returncode, "unknown, only root may ask it" in version.stdout) == (0, True), version
    doctor = run(socket, "doctor", prefix=_UNPRIVILEGED)
    assert "only root may connect to the agent and its runtime server" in doctor.stdout, doctor
    check = run(socket, "check", str(tmp_path / "a.yaml"), prefix=_UNPRIVILEGED)
    assert (check.returncode, "no permission to connect" in check.stderr) == (0, True), check


def test_default_socket_in_a_closed_directory_is_the_one_to_use(closed: Path) -> None:
    script = (
        "import pathlib, sys; from pykubelet.cli.client import agent_socket; "
        "agent_socket.DEFAULT_SOCKET = pathlib.Path(sys.argv[1]); print(agent_socket.default_socket())"
    )
    command = [*_UNPRIVILEGED, sys.executable, "-c", script, str(closed / "agent.sock")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment())
    assert (done.returncode, done.stdout) == (0, f"{closed / 'agent.sock'}\n"), done.stderr


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("help", "re"), {"reset", "restart", "retry"}),
        (("help", "image", "p"), {"prune", "pull"}),
        (("wait", "--for", "c"), {"completed", "create", "condition=Ready"}),
        (("get", "pods", "-o", "j"), {"json", "jsonpath="}),
    ],
)
def test_words_of_commands_and_options_are_completed(words: tuple[str, ...], found: set[str]) -> None:
    completion = BashComplete(cli, {}, "pykubelet", "_PYKUBELET_COMPLETE")
    assert {item.value for item in completion.get_completions(list(words[:-1]), words[-1])} == found


@pytest.fixture
def agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory of links, and no agent at the default socket."""
    monkeypatch.setenv("PYKUBELET_AGENTS_DIR", str(tmp_path / "agents"))
    monkeypatch.setattr(agent_socket, "DEFAULT_SOCKET", tmp_path / "default.sock")
    yield tmp_path / "agents"


def listening(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.bind(str(path))
    made.listen()
    return made


def test_an_agent_with_its_own_directory_is_found_by_its_link(tmp_path: Path, agents: Path) -> None:
    one, two = tmp_path / "one.sock", tmp_path / "two.sock"
    assert default_socket() == tmp_path / "default.sock"
    with listening(one), linked(one):
        assert default_socket() == one
        with listening(two), linked(two):
            assert running_agents() == [one, two]
            assert default_socket() == tmp_path / "default.sock"
        with linked(two):  # its process has ended
            assert default_socket() == one
        with listening(tmp_path / "default.sock"):
            assert default_socket() == tmp_path / "default.sock"
    assert not agents.exists()


def test_links_that_others_may_have_left_are_not_followed(tmp_path: Path, agents: Path) -> None:
    with listening(tmp_path / "a.sock"), linked(tmp_path / "a.sock"):
        agents.chmod(0o777)
        assert running_agents() == []


def test_no_link_is_left_for_an_empty_variable_or_the_default_socket(
    tmp_path: Path, agents: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with linked(tmp_path / "default.sock"):
        assert not agents.exists()
    monkeypatch.setenv("PYKUBELET_AGENTS_DIR", "")
    with linked(tmp_path / "a.sock"):
        assert running_agents() == []
    assert os.listdir(tmp_path) == []  # noqa: PTH208
