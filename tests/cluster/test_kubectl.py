"""A walk through the cluster with the real kubectl, as its users do it: every command must come to what they expect."""

import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pykubelet.testing.agent import wait_for
from pykubelet.testing.envtest import ADMIN, EnvTest
from pykubelet.testing.kubeapi import Json
from tests.cluster.conftest import NODE, Cluster
from tests.manifests import container, pod, serving

pytestmark = [pytest.mark.root, pytest.mark.runtime]


def _kubectl() -> str:
    beside = Path(os.environ.get("KUBEBUILDER_ASSETS", "/nonexistent"), "kubectl")
    return str(beside) if beside.is_file() else shutil.which("kubectl") or ""


if not _kubectl():
    pytestmark.append(pytest.mark.skip(reason="needs kubectl: put it into KUBEBUILDER_ASSETS or into the PATH"))


@dataclass
class Kubectl:
    """Runs kubectl as the administrator."""

    kubeconfig: Path
    why: Callable[[], str]

    def command(self, *arguments: str) -> list[str]:
        return [_kubectl(), "--kubeconfig", str(self.kubeconfig), "--cache-dir", f"{self.kubeconfig}.cache", *arguments]

    def __call__(self, *arguments: str, given: str = "", code: int = 0) -> str:
        """Its output; AssertionError for another exit status."""
        done = subprocess.run(self.command(*arguments), input=given, capture_output=True, text=True, timeout=60)
        assert done.returncode == code, f"kubectl {arguments}: {done.stdout}{done.stderr}\n{self.why()}"
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def node_config(apiserver: EnvTest) -> Json:
    """The API server calls back on a port of our own."""
    return {"authentication": {"x509": {"clientCAFile": str(apiserver.home / "ca.crt")}}}


@pytest.fixture
def kubectl(apiserver: EnvTest, cluster: Cluster) -> Iterator[Kubectl]:
    made = Kubectl(apiserver.kubeconfig(ADMIN), cluster.agent.log_tail)
    yield made
    made("delete", "pod", "--all", "--grace-period=1", "--ignore-not-found")


def test_a_walk_with_kubectl(kubectl: Kubectl, cluster: Cluster, tmp_path: Path) -> None:
    nodes = kubectl("get", "nodes", "-o", "wide")
    assert NODE in nodes and " Ready " in nodes and "://" in nodes

    script = "for n in 1 2 3; do echo line $n; done; echo state > /tmp/state"
    manifest = tmp_path / "web.json"
    web = pod("web", container("main", serving(script)), nodeName=NODE)
    manifest.write_text(json.dumps(web))
    assert "created" in kubectl("apply", "-f", str(manifest))
    kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=40s")
    assert "unchanged" in kubectl("apply", "-f", str(manifest))
    web["metadata"]["labels"] = {"tier": "front"}
    manifest.write_text(json.dumps(web))
    assert "configured" in kubectl("apply", "-f", str(manifest))
    assert "1/1" in kubectl("get", "pods", "-l", "tier=front") and "Running" in kubectl("get", "pod", "web")

    described = kubectl("describe", "pod", "web")
    for expected in ("Node:", "Started", "Container started", "Ready:          True"):
        assert expected in described
    assert "kubelet" in kubectl("describe", "node", NODE)

    assert kubectl("logs", "web").split("\n")[:3] == ["line 1", "line 2", "line 3"]
    assert kubectl("logs", "web", "--tail=1").strip() == "line 3"
    follow = subprocess.Popen(kubectl.command("logs", "-f", "web"), stdout=subprocess.PIPE, text=True)
    try:
        kubectl("exec", "web", "--", "sh", "-c", "echo more > /proc/1/fd/1")
        assert follow.stdout is not None
        assert [follow.stdout.readline().strip() for _ in range(4)][3] == "more"
    finally:
        follow.kill()
        follow.communicate()

    assert kubectl("exec", "web", "--", "cat", "/tmp/state").strip() == "state"
    assert kubectl("exec", "-i", "web", "--", "cat", given="over stdin").strip() == "over stdin"
    kubectl("exec", "web", "--", "sh", "-c", "exit 7", code=7)

    source, back = tmp_path / "up", tmp_path / "down"
    source.write_text("copied")
    kubectl("cp", str(source), "web:/tmp/up")
    kubectl("cp", "web:/tmp/up", str(back))
    assert back.read_text() == "copied"

    deleted = time.monotonic()
    assert "deleted" in kubectl("delete", "pod", "web")
    assert time.monotonic() - deleted < 30
    assert "NotFound" in kubectl("get", "pod", "web", code=1)


def test_attach_and_port_forward(kubectl: Kubectl, cluster: Cluster) -> None:
    reader = container("main", ["cat"], stdin=True, stdinOnce=True)
    cluster.run(pod("echo", reader, restartPolicy="Never"))
    cluster.ready("echo")
    assert "hello" in kubectl("attach", "-i", "echo", given="hello\n")
    cluster.until("echo", lambda p: p.status.phase == "Succeeded")

    page = "mkdir -p /www && echo page > /www/index.html && exec httpd -f -p 8080 -h /www"
    cluster.run(pod("site", container("main", ["sh", "-c", page])))
    cluster.ready("site")
    forward = subprocess.Popen(
        kubectl.command("port-forward", "pod/site", ":8080"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert forward.stdout is not None
        line = forward.stdout.readline()
        port = line.split(":")[1].split(" ")[0]
        found: list[str] = []

        def answered() -> bool:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/index.html", timeout=5) as answer:
                    found.append(answer.read().decode())
            except (urllib.error.URLError, OSError):
                return False
            return True

        wait_for(answered, 20.0, cluster.agent.log_tail)
        assert found == ["page\n"]
    finally:
        forward.kill()
        forward.communicate()
