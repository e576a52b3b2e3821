"""The commands of the real crictl, with the results that administrators expect."""

import json
import os
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from pykubelet.testing.agent import wait_for
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.registry import Registry
from pykubelet.testing.runtime import PrivateRuntime
from pykubelet.testing.terminal import COLUMNS, LINES, Terminal
from pykubelet.testing.traces import remove_cgroups
from tests.manifests import BUSYBOX

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.timeout(240)]

_CRICTL = os.environ.get("PYKUBELET_CRICTL") or shutil.which("crictl") or ""
if not _CRICTL:
    why = "needs crictl of kubernetes-sigs/cri-tools, which Debian does not have: name the program in PYKUBELET_CRICTL"
    pytestmark.append(pytest.mark.skip(reason=why))
_SECONDS = 60 * PATIENCE
_TRANSPORTS = ("spdy", "websocket")
_WEB = (
    "echo line 1; echo line 2 >&2; mkdir -p /www; echo page > /www/index.html; httpd -p 8080 -h /www; "
    "while read line; do echo got $line; done; exec sleep 3600"
)


@dataclass
class Crictl:
    """Runs crictl against one runtime."""

    endpoint: str
    directory: Path

    def command(self, *arguments: str) -> list[str]:
        config = self.directory / "crictl.yaml"
        config.write_text("timeout: 30\n")
        return [_CRICTL, "--config", str(config), "-r", self.endpoint, "-i", self.endpoint, *arguments]

    def __call__(self, *arguments: str, given: str = "", fails: bool = False, both: bool = False) -> str:
        """Run a command; returns its output, optionally with its errors. AssertionError for another exit status."""
        done = subprocess.run(
            self.command(*arguments), input=given, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
        assert (done.returncode != 0) is fails, f"crictl {arguments}: {done.stdout}{done.stderr}"
        return (done.stdout + done.stderr if fails or both else done.stdout).strip()

    @contextmanager
    def background(self, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
        """Run a command until the end of the block."""
        program = subprocess.Popen(
            self.command(*arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            yield program
        finally:
            program.kill()
            program.communicate()

    def on_terminal(self, *arguments: str, typed: str) -> tuple[str, int]:
        """Run a command on a terminal and type text at its prompt; returns the output and the exit code."""
        with Terminal(self.command(*arguments)) as terminal:
            terminal.until(lambda shown: "# " in shown)
            terminal.type(typed)
            code = terminal.end()
            return terminal.shown, code

    def write(self, name: str, document: dict[str, object]) -> str:
        path = self.directory / f"{name}.json"
        path.write_text(json.dumps(document))
        return str(path)


@pytest.fixture
def crictl(daemon: PrivateRuntime, isolation: Isolation, tmp_path: Path) -> Iterator[Crictl]:
    made = Crictl(daemon.endpoint, tmp_path)
    yield made
    for pod in made("pods", "-q", "--label", f"walk={tmp_path.name}").split():
        made("rmp", "-f", pod)
    remove_cgroups(f"{isolation.cgroup_root}-w")


def _pod(crictl: Crictl, isolation: Isolation) -> str:
    return crictl.write(
        "pod",
        {
            "metadata": {"name": "web", "namespace": "walk", "uid": crictl.directory.name, "attempt": 0},
            "hostname": "web",
            "log_directory": str(crictl.directory / "logs"),
            "labels": {"walk": crictl.directory.name},
            "linux": {"cgroup_parent": f"{isolation.cgroup_root}-w"},
        },
    )


def _container(crictl: Crictl) -> str:
    return crictl.write(
        "container",
        {
            "metadata": {"name": "main"},
            "image": {"image": BUSYBOX},
            "command": ["sh", "-c", _WEB],
            "log_path": "main.log",
            "stdin": True,
            "linux": {"security_context": {"namespace_options": {"pid": 1}}},
        },
    )


def _wait_logs(crictl: Crictl, container: str) -> None:
    """crictl writes the program's error stream to its own error stream."""
    wait_for(
        lambda: crictl("logs", container, both=True).split("\n") == ["line 1", "line 2"],
        20 * PATIENCE,
        lambda: crictl("logs", container, both=True),
    )


def test_crictl_commands_succeed(crictl: Crictl, isolation: Isolation, daemon: PrivateRuntime) -> None:
    assert daemon.name in crictl("version") and "RuntimeReady" in crictl("info")
    pod_file = _pod(crictl, isolation)
    pod = crictl("runp", pod_file)
    assert "Ready" in crictl("pods", "--id", pod) and json.loads(crictl("inspectp", pod))["status"]["network"]["ip"]
    container = crictl("create", pod, _container(crictl), pod_file)
    assert "Created" in crictl("ps", "-a", "--id", container)
    assert container in crictl("start", container)
    assert "Running" in crictl("ps", "--pod", pod)
    assert json.loads(crictl("inspect", container))["status"]["state"] == "CONTAINER_RUNNING"

    _wait_logs(crictl, container)
    assert crictl("logs", "-s", "stdout", container) == "line 1"
    with crictl.background("logs", "-f", container) as follow:
        crictl("exec", "-s", container, "sh", "-c", "echo more > /proc/1/fd/1")
        assert follow.stdout is not None
        assert "more\n" in [follow.stdout.readline() for _ in range(3)]
    assert crictl("exec", "-s", container, "hostname") == "web"
    assert "7" in crictl("exec", "-s", container, "sh", "-c", "exit 7", fails=True)
    assert crictl("exec", "-i", container, "cat", given="over stdin") == "over stdin"

    usage = json.loads(crictl("stats", "-o", "json", "--id", container))["stats"]
    assert int(usage[0]["memory"]["workingSetBytes"]["value"]) > 0
    assert crictl("update", "--cpu-share", "512", container) == container
    shares = json.loads(crictl("inspect", container))["status"]["resources"]["linux"]["cpuShares"]
    assert int(shares) == 512
    crictl("stop", "-t", "0", container)
    assert "Exited" in crictl("ps", "-a", "--id", container)
    crictl("rm", container)
    assert pod in crictl("stopp", pod) and "NotReady" in crictl("pods", "--id", pod)
    assert pod in crictl("rmp", pod)
    assert crictl("pods", "-q", "--id", pod) == ""


@pytest.mark.parametrize("transport", _TRANSPORTS)
def test_crictl_streams_exec_attach_and_port_forward(
    crictl: Crictl, isolation: Isolation, daemon: PrivateRuntime, transport: str
) -> None:
    if transport == "websocket" and daemon.name == "containerd":
        pytest.skip("containerd 1.6 has no WebSocket of the kubelet's protocols v5 and port-forward")
    pod_file = _pod(crictl, isolation)
    pod = crictl("runp", pod_file)
    container = crictl("create", pod, _container(crictl), pod_file)
    crictl("start", container)
    _wait_logs(crictl, container)

    # The size is set after the prompt; the echo of this command does not contain it.
    sized = f'until [ "$(stty size)" = "{LINES} $(({COLUMNS}))" ]; do sleep 0.1; done;'
    said, code = crictl.on_terminal(
        *("exec", "-it", "-r", transport, container, "sh"), typed=f"{sized} stty size; echo $((6 * 7)); exit\n"
    )
    assert f"{LINES} {COLUMNS}" in said and "42" in said and code == 0, said
    said, code = crictl.on_terminal("exec", "-it", "-r", transport, container, "sh", typed="exit 5\n")
    assert code != 0 and "5" in said, said

    with crictl.background("attach", "-i", "-r", transport, container) as attached:
        assert attached.stdin is not None and attached.stdout is not None
        attached.stdin.write("hello\n")
        attached.stdin.flush()
        assert attached.stdout.readline() == "got hello\n"

    with crictl.background("port-forward", "-r", transport, pod, ":8080") as forward:
        assert forward.stdout is not None
        port = forward.stdout.readline().split(":")[1].split(" ")[0]
        wait_for(lambda: _page(port) == "page\n", 20, lambda: "nothing is served")


def _page(port: str) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/index.html", timeout=5) as answer:
            text: str = answer.read().decode()
            return text
    except (urllib.error.URLError, OSError):
        return ""


def test_crictl_pulls_inspects_and_removes_an_image(crictl: Crictl, tmp_path: Path) -> None:
    with Registry(tmp_path) as registry:
        image = registry.add("walk/image", files={"walk": registry.host.encode()}, labels={"walk": "yes"})
        repository = image.rpartition(":")[0]
        assert crictl("pull", image).startswith("Image is up to date for ")
        assert repository in crictl("images")
        details = json.loads(crictl("inspecti", image))
        assert details["status"]["repoTags"] == [image]
        assert details["info"]["imageSpec"]["config"]["Labels"] == {"walk": "yes"}
        assert f"Deleted: {image}" in crictl("rmi", image)
        assert repository not in crictl("images")
        assert "NotFound" in crictl("pull", registry.reference("none"), fails=True)
