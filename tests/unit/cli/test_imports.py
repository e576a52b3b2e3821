"""Imports of commands: a command that runs a tenth of a second must not spend it on libraries it does not use."""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer

import pytest

from pykubelet.testing.agent import environment

HEAVY = (
    "aiohttp",
    "asyncio",
    "click.shell_completion",
    "cryptography",
    "google.protobuf",
    "grpc",
    "hashlib",
    "hypothesis",
    "jeepney",
    "msgspec",
    "prometheus_client",
    "pydoc",
    "pykubelet.criserver",
    "pykubelet.kubelet",
    "pykubelet.linux",
    "pykubelet.models",
    "pykubelet.pb",
    "rich",
    "subprocess",
    "unittest",
    "yaml",
    "zstandard",
)
"""Modules that take milliseconds to import; their submodules count, too."""
_RUN = """
import os, sys
from pykubelet.cli.entry import main

def leave(status, really=os._exit):
    sys.stderr.write("".join(f"module {name}\\n" for name in sys.modules))
    sys.stderr.flush()
    really(status)

os._exit = leave
main()
"""
_POD = {
    "metadata": {"name": "demo-n", "namespace": "default", "uid": "u"},
    "spec": {"nodeName": "n", "containers": [{"name": "main", "image": "i", "ports": [{"containerPort": 8080}]}]},
    "status": {"phase": "Running", "containerStatuses": [{"name": "main", "ready": True, "state": {"running": {}}}]},
}

_ANSWERS = {
    "/api/v1/pods": {"items": [_POD]},
    "/pykubelet/v1/images": {"items": [{"id": "sha256:1", "repoTags": ["localhost/demo:1"]}]},
    "/pykubelet/v1/config": {"fields": [{"field": "maxPods", "onChange": "live", "reason": "admission"}]},
}


class _Handler(BaseHTTPRequestHandler):
    """Answers as an agent with one pod."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        body = b"a line\n" if path.endswith("/log") else json.dumps(_ANSWERS.get(path, {"items": []})).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        change = {"label": "configmap/c", "change": "created"}
        body = json.dumps({"changes": [change]} if self.path.endswith("/apply") else {}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "client"

    def log_message(self, format: str, *args: object) -> None:
        pass


class _Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Path]:
    """The socket of an agent with the pod ``demo``."""
    path = tmp_path / "agent.sock"
    with _Server(str(path), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield path
        finally:
            server.shutdown()
            thread.join()


def _run(agent: Path, *words: str) -> tuple[str, set[str]]:
    """Run a command; return its output and the modules that its process has imported."""
    argv = [sys.executable, "-c", _RUN, "--socket", str(agent), *words]
    ended = subprocess.run(argv, capture_output=True, text=True, env=environment())
    assert ended.returncode == 0, ended.stderr
    return ended.stdout, {line.removeprefix("module ") for line in ended.stderr.splitlines()}


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("--help",), "Manifests:"),
        (("--version",), "pykubelet"),
        (("get", "--help"), "Example"),
        (("get", "pods"), "demo-n"),
        (("get", "pods", "-o", "json"), '"demo-n"'),
        (("get", "events"), ""),
        (("logs", "demo"), "a line"),
        (("logs", "-l", "app=web"), "a line"),
        (("explain", "--help"), "Usage"),
        (("exec", "--help"), "Usage"),
        (("top", "--help"), "Usage"),
    ],
)
def test_command_imports_no_heavy_module(agent: Path, words: tuple[str, ...], shown: str) -> None:
    output, modules = _run(agent, *words)
    assert shown in output
    assert "pykubelet.cli.app" in modules
    heavy = {name for name in modules if any(name == each or name.startswith(f"{each}.") for each in HEAVY)}
    assert heavy == set()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("",), "run-once"),
        (("g",), "get"),
        (("help", ""), "run-once"),
        (("logs", ""), "demo-n"),
        (("logs", "demo", "-c", ""), "main"),
        (("logs", "-n", ""), "default"),
        (("exec", "demo", "-c", ""), "main"),
        (("attach", ""), "demo-n"),
        (("get", ""), "configmaps"),
        (("get", "pods", ""), "demo-n"),
        (("get", "pods", "-o", ""), "json"),
        (("describe", ""), "demo-n"),
        (("delete", ""), "demo-n"),
        (("wait", "--for", ""), "ready"),
        (("restart", "demo/"), "demo/main"),
        (("retry", ""), "demo-n"),
        (("explain", ""), "demo-n"),
        (("timeline", ""), "demo-n"),
        (("top", ""), "pods"),
        (("port-forward", "demo", "80:"), "80:8080"),
        (("cp", ""), "demo-n:"),
        (("image", ""), "prune"),
        (("image", "rm", ""), "localhost/demo:1"),
        (("config", "status", ""), "maxPods"),
        (("check", "--s"), "--strict"),
        (("diff", "--f"), "--filename"),
        (("run-once", "--t"), "--timeout"),
    ],
)
def test_completion_imports_no_heavy_module(agent: Path, shell: str, words: tuple[str, ...], found: str) -> None:
    typed = ("pykubelet", *words)
    asked = {
        "_PYKUBELET_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": " ".join(typed),
        "COMP_CWORD": words[-1] if shell == "fish" else str(len(words)),
        "PYKUBELET_SOCKET": str(agent),
    }
    ended = subprocess.run([sys.executable, "-c", _RUN], capture_output=True, text=True, env=environment() | asked)
    assert found in re.split(r"[\s,]", ended.stdout.replace("\\:", ":")), ended
    modules = {line.removeprefix("module ") for line in ended.stderr.splitlines()}
    allowed = "click.shell_completion"
    heavy = {name for name in modules for each in HEAVY if name == each or name.startswith(f"{each}.")} - {allowed}
    assert allowed in modules and heavy == set()


def test_apply_imports_neither_the_command_tree_nor_a_heavy_module(agent: Path, tmp_path: Path) -> None:
    given = tmp_path / "web.yaml"
    given.write_text("an agent reads it")
    output, modules = _run(agent, "apply", "-f", str(given))
    assert output == "configmap/c created\n"
    heavy = (*HEAVY, "click", "dataclasses", "http", "inspect", "pathlib", "pykubelet.cli.app", "ssl", "urllib")
    assert {name for name in modules if any(name == each or name.startswith(f"{each}.") for each in heavy)} == set()


@pytest.mark.parametrize("words", [("get", "pods"), ("wait", "--for=deleted", "other"), ("restart", "demo")])
def test_command_imports_no_http_library(agent: Path, words: tuple[str, ...]) -> None:
    _, modules = _run(agent, *words)
    heavy = (*HEAVY, "http", "email", "ssl")
    assert {name for name in modules if any(name == each or name.startswith(f"{each}.") for each in heavy)} == set()


def test_guard_notices_a_heavy_module(agent: Path) -> None:
    """`-o yaml` needs the library, so the list of modules has it: the test above can fail."""
    _, modules = _run(agent, "get", "pods", "-o", "yaml")
    assert "yaml" in modules


def test_command_imports_no_other_command(agent: Path) -> None:
    _, modules = _run(agent, "get", "pods")
    assert {name for name in modules if name.startswith("pykubelet.cli.commands.")} == {
        "pykubelet.cli.commands.pods",
        "pykubelet.cli.commands.pods.get",
    }
