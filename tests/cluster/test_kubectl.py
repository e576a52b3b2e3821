"""The commands of the real kubectl against a node, with the results that users expect."""

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.testing.agent import container_status, is_ready, wait_for, waiting_reason
from pykubelet.testing.envtest import ADMIN, EnvTest
from pykubelet.testing.kubeapi import Json
from pykubelet.testing.terminal import Terminal
from tests.cluster.cluster_node import NODE, Cluster
from tests.kubectl import Kubectl, needs_kubectl
from tests.manifests import BUSYBOX, container, pod, serving, sh

pytestmark = [pytest.mark.root, pytest.mark.runtime, needs_kubectl]


@pytest.fixture(scope="module")
def node_config(apiserver: EnvTest) -> Json:
    """KubeletConfiguration with a private port, to which the API server connects."""
    return {"authentication": {"x509": {"clientCAFile": str(apiserver.home / "ca.crt")}}}


@pytest.fixture
def kubectl(apiserver: EnvTest, cluster: Cluster) -> Iterator[Kubectl]:
    made = Kubectl(apiserver.kubeconfig(ADMIN), cluster.agent.log_tail)
    yield made
    made("delete", "pod", "--all", "--grace-period=1", "--ignore-not-found")


def test_kubectl_commands_succeed(kubectl: Kubectl, cluster: Cluster, tmp_path: Path) -> None:
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

    described = ""

    def shows_its_start() -> bool:
        nonlocal described
        described = kubectl("describe", "pod", "web")
        return "Container started" in described

    wait_for(shows_its_start, 20, lambda: described)  # events are sent half a second later than statuses
    for expected in ("Node:", "Started", "Ready:          True"):
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


def test_a_terminal_and_changes_in_place(kubectl: Kubectl, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """exec -it with the terminal's size, ``kubectl debug`` of a running pod, and of the node."""
    cluster.run(pod("box", container(tty=True, stdin=True), metadata={"labels": {"tier": "front"}}))
    cluster.ready("box")
    with Terminal(kubectl.command("exec", "-it", "box", "--", "sh"), size=(33, 111)) as shell:
        # kubectl sends the size in a stream of its own, which may come after what is typed.
        shell.type("test -t 0 && test -t 1 && echo is-a-$((1+1))-tty\n")
        shell.type('until [ "$(stty size)" = "33 $((111))" ]; do sleep 0.1; done; stty size\n')
        shell.expect("is-a-2-tty")
        shell.expect("33 111")
        shell.resize(22, 77)

        def resized() -> bool:
            shell.type("stty size\n")
            return shell.shows("22 77", 0.5)

        wait_for(resized, 10.0, cluster.agent.log_tail)
        shell.type("exit 5\n")
        assert shell.end(20) == 5

    with Terminal(kubectl.command("attach", "-it", "box"), size=(30, 100)) as attached:
        attached.expect("If you don't see a command prompt")
        assert attached.process.poll() is None

    kubectl("label", "pod", "box", "tier=back", "--overwrite")
    kubectl("annotate", "pod", "box", "note=changed")
    assert "box" in kubectl("get", "pods", "-l", "tier=back", "-o", "name")
    kubectl("patch", "pod", "box", "--patch", json.dumps({"metadata": {"labels": {"tier": "middle"}}}))
    monkeypatch.setenv("KUBE_EDITOR", "sed -i s/middle/edited/")
    assert "edited" in kubectl("edit", "pod", "box")
    assert "box" in kubectl("get", "pods", "-l", "tier=edited", "-o", "name")
    before = cluster.ready("box")
    # An image may be changed while the pod runs: that container is restarted. Without its tag it is another name.
    kubectl("set", "image", "pod/box", f"main={BUSYBOX.replace(':1', ':2')}")
    cluster.until("box", lambda p: waiting_reason(p) in ("ErrImagePull", "ImagePullBackOff"))
    kubectl("set", "image", "pod/box", f"main={BUSYBOX}")
    after = cluster.until("box", lambda p: container_status(p).restart_count == 1 and is_ready(p))
    assert after.metadata.uid == before.metadata.uid
    kubectl("wait", "--for=condition=Ready", "pod/box", "--timeout=20s")
    assert "Killing" in kubectl("get", "events", "--field-selector=involvedObject.name=box")

    shown = kubectl("debug", f"node/{NODE}", f"--image={BUSYBOX}", "--attach=false", "--", *sh("ls /host/proc/1/comm"))
    name = next(word for word in shown.split() if word.startswith("node-debugger-"))
    cluster.until(name, lambda p: p.status.phase == "Succeeded")
    assert kubectl("logs", name).strip() == "/host/proc/1/comm"


def test_logs_of_several_containers_and_ends(kubectl: Kubectl, cluster: Cluster) -> None:
    talking = container("talks", sh("[ -e /state/again ] && sleep 3600; touch /state/again; echo first life; exit 4"))
    talking["volumeMounts"] = [{"name": "state", "mountPath": "/state"}]
    other = container("other", serving("echo other"))
    cluster.run(pod("two", talking, other, volumes=[{"name": "state", "emptyDir": {}}]))
    cluster.until("two", lambda p: container_status(p, "talks").restart_count == 1 and is_ready(p))
    assert kubectl("logs", "two", "-c", "talks", "--previous").strip() == "first life"
    assert kubectl("logs", "two", "--all-containers", "--prefix").split() == ["[pod/two/other]", "other"]
    stamped = kubectl("logs", "two", "-c", "other", "--timestamps", "--since=1h").split(" ", 1)
    assert stamped[0].endswith("Z") and stamped[1] == "other\n"
    assert kubectl("logs", "two", "-c", "other", "--limit-bytes=3") == "oth"
    assert "is not valid for pod two" in kubectl("logs", "two", "-c", "missing", code=1)
    described = kubectl("describe", "pod", "two")
    assert "Exit Code:    4" in described and "Restart Count:  1" in described
    raw = json.loads(kubectl("get", "--raw", f"/api/v1/nodes/{NODE}/proxy/stats/summary"))
    assert "two" in {each["podRef"]["name"] for each in raw["pods"]}
