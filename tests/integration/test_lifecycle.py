"""The life cycle of a pod, from its manifest to the removal of everything that belongs to it."""

import re
import socket
import subprocess
import time
from pathlib import Path

import pytest

from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.agent import AgentProcess, container_status, wait_for
from pykubelet.testing.free_ports import free_port
from pykubelet.testing.nodetraces import NodeTraces
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.runtime import PrivateRuntime
from tests.manifests import BUSYBOX, Apply, config_map, container, mount, pod, secret, serving

pytestmark = [pytest.mark.root, pytest.mark.runtime]

_CRI_LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+(Z|[+-]\d\d:\d\d) (stdout|stderr) F (.*)")


@pytest.fixture(scope="module")
def agent_config() -> dict[str, object]:
    return {"clusterDomain": "cluster.test"}


def test_status_as_kubectl_shows_it(agent: AgentProcess, daemon: PrivateRuntime, apply: Apply) -> None:
    resources = {"requests": {"cpu": "10m", "memory": "8Mi"}}
    apply("status", pod("status", container(resources=resources), metadata={"labels": {"app": "x"}}))
    seen = agent.wait_running("status")[0]
    status = seen.status
    assert seen.metadata.name == "status-testnode"
    assert seen.metadata.namespace == "default"
    assert re.fullmatch(r"[0-9a-f]{32}", seen.metadata.uid)
    assert seen.metadata.annotations["kubernetes.io/config.source"] == "file"
    assert seen.metadata.annotations["kubernetes.io/config.hash"] == seen.metadata.uid
    assert seen.spec.node_name == "testnode"
    assert status.phase == "Running"
    assert status.qos_class == "Burstable"
    assert status.pod_ip.startswith("10.200.")
    assert [ip.ip for ip in status.pod_ips] == [status.pod_ip]
    assert status.host_ip
    assert status.start_time is not None
    assert {c.type: c.status for c in status.conditions} == {
        "PodReadyToStartContainers": "True",
        "Initialized": "True",
        "Ready": "True",
        "ContainersReady": "True",
        "PodScheduled": "True",
    }
    main = container_status(seen)
    assert (main.name, main.ready, main.started, main.restart_count) == ("main", True, True, 0)
    assert main.image == BUSYBOX
    assert "sha256:" in main.image_id
    assert main.container_id.startswith(f"{daemon.name}://")
    assert main.state is not None
    assert main.state.running is not None


def test_logs_are_at_the_paths_of_log_collectors(agent: AgentProcess, apply: Apply) -> None:
    apply("logs", pod("logs", container(command=serving("echo to out; echo to err >&2"))))
    seen = agent.wait_running("logs")[0]
    directory = agent.pod_logs / f"default_logs-testnode_{seen.metadata.uid}" / "main"
    # The container runs, and the pod is ready, before the shell has written.
    wait_for(lambda: (directory / "0.log").read_text().count("\n") >= 2, 20, agent.log_tail)
    lines = (directory / "0.log").read_text().splitlines()
    found = [match.group(2, 3) for match in map(_CRI_LINE.fullmatch, lines) if match]
    assert sorted(found) == [("stderr", "to err"), ("stdout", "to out")]
    identity = container_status(seen).container_id.partition("://")[2]
    link = agent.container_logs / f"logs-testnode_default_main-{identity}.log"
    assert link.resolve() == (directory / "0.log").resolve()


async def test_runtime_objects_have_kubernetes_labels(
    agent: AgentProcess, daemon: PrivateRuntime, apply: Apply
) -> None:
    meta = {"labels": {"app": "web"}, "annotations": {"note": "mine"}}
    ports = [{"containerPort": 80, "protocol": "TCP"}]
    apply("labels", pod("labels", container(ports=ports), metadata=meta))
    seen = agent.wait_running("labels")[0]
    async with CriClient.connect(daemon.endpoint) as client:
        selector = {"io.kubernetes.pod.uid": seen.metadata.uid}
        (sandbox,) = await client.list_pod_sandboxes(pb.PodSandboxFilter(label_selector=selector))
        (row,) = await client.list_containers(pb.ContainerFilter(label_selector=selector))
    names = {
        "io.kubernetes.pod.name": "labels-testnode",
        "io.kubernetes.pod.namespace": "default",
        "io.kubernetes.pod.uid": seen.metadata.uid,
    }
    assert dict(sandbox.labels) == {"app": "web", **names}
    assert sandbox.annotations["note"] == "mine"
    assert sandbox.annotations["kubernetes.io/config.source"] == "file"
    assert (sandbox.metadata.name, sandbox.metadata.attempt) == ("labels-testnode", 0)
    assert dict(row.labels) == {**names, "io.kubernetes.container.name": "main"}
    assert row.annotations["io.kubernetes.container.restartCount"] == "0"
    assert row.annotations["io.kubernetes.container.terminationMessagePath"] == "/dev/termination-log"
    assert row.annotations["io.kubernetes.container.terminationMessagePolicy"] == "File"
    assert row.annotations["io.kubernetes.pod.terminationGracePeriod"] == "5"
    assert re.fullmatch(r"[0-9a-f]+", row.annotations["io.kubernetes.container.hash"])
    assert '"containerPort":80' in row.annotations["io.kubernetes.container.ports"]


def test_names_inside_the_pod(agent: AgentProcess, apply: Apply) -> None:
    dns = {"nameservers": ["192.0.2.53"], "searches": ["example.test"], "options": [{"name": "ndots", "value": "2"}]}
    aliases = [{"ip": "192.0.2.7", "hostnames": ["db", "database"]}]
    apply(
        "names",
        pod("names", hostname="web-0", dnsPolicy="None", dnsConfig=dns, hostAliases=aliases),
        pod("hostnet", hostNetwork=True),
        pod("fqdn", hostname="a", subdomain="b", setHostnameAsFQDN=True),
        pod("override", hostnameOverride="x.example"),
        pod("long", subdomain="s" * 60, setHostnameAsFQDN=True),
    )
    own, shared, full, other = agent.wait_running("names", "hostnet", "fqdn", "override")
    agent.wait_event("long", "FailedCreatePodSandBox", "is too long (64 characters is the max, ")
    for pod_, expected in ((full, ["a.b.default.svc.cluster.test", "a"]), (other, ["x.example"])):
        name = pod_.metadata.name.removesuffix(f"-{agent.node_name}")
        assert agent.exec(name, "hostname").strip() == expected[0]
        lines = [line.split() for line in agent.exec(name, "cat /etc/hosts").splitlines()]
        assert [pod_.status.pod_ip, *expected] in lines
    assert agent.exec("names", "hostname").strip() == "web-0"
    hosts = [line.split() for line in agent.exec("names", "cat /etc/hosts").splitlines()]
    assert [own.status.pod_ip, "web-0"] in hosts
    assert ["192.0.2.7", "db", "database"] in hosts
    resolv = agent.exec("names", "cat /etc/resolv.conf").splitlines()
    assert resolv == ["search example.test", "nameserver 192.0.2.53", "options ndots:2"]
    assert f" inet {own.status.pod_ip}/" in agent.exec("names", "ip -4 addr show eth0")
    assert shared.status.pod_ip == shared.status.host_ip
    assert agent.exec("hostnet", "hostname").strip() == socket.gethostname()


def test_container_gets_environment_and_command_of_the_manifest(agent: AgentProcess, apply: Apply) -> None:
    env = [
        {"name": "PLAIN", "value": "one"},
        {"name": "COMBINED", "value": "$(PLAIN)-$(FROM_MAP)-$$(PLAIN)-$(MISSING)"},
        {"name": "FROM_MAP", "valueFrom": {"configMapKeyRef": {"name": "env-map", "key": "key"}}},
        {"name": "LATER", "value": "$(FROM_MAP)"},
        {"name": "FROM_SECRET", "valueFrom": {"secretKeyRef": {"name": "env-secret", "key": "password"}}},
        {"name": "ABSENT", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "k", "optional": True}}},
        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "TIER", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['tier']"}}},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
    ]
    env_from = [{"configMapRef": {"name": "env-map"}, "prefix": "M_"}, {"secretRef": {"name": "env-secret"}}]
    script = "trap 'exit 0' TERM; echo args: $0 $1 $2; sleep 3600 & wait"
    apply(
        "env",
        config_map("env-map", {"key": "two"}),
        secret("env-secret", {"password": "hidden"}),
        pod(
            "env",
            container(
                command=["sh", "-c"],
                args=[script, "$(PLAIN)", "$$(PLAIN)", "$(LATER)"],
                env=env,
                envFrom=env_from,
                workingDir="/tmp",
                resources={"limits": {"cpu": "250m"}},
            ),
            metadata={"labels": {"tier": "backend"}},
        ),
    )
    seen = agent.wait_running("env")[0]
    values = dict(line.split("=", 1) for line in agent.exec("env", "env").splitlines() if "=" in line)
    expected = {
        "PLAIN": "one",
        "COMBINED": "one-$(FROM_MAP)-$(PLAIN)-$(MISSING)",
        "FROM_MAP": "two",
        "LATER": "two",
        "FROM_SECRET": "hidden",
        "POD_NAME": "env-testnode",
        "POD_IP": seen.status.pod_ip,
        "NODE": "testnode",
        "TIER": "backend",
        "CPU": "250",
        "M_key": "two",
        "password": "hidden",
    }
    assert {name: values.get(name) for name in expected} == expected
    assert "ABSENT" not in values
    assert agent.exec("env", "pwd").strip() == "/tmp"
    assert "args: one $(PLAIN) two" in agent.cli("logs", "env").stdout


def test_ports_are_reached_through_the_pod_and_the_host(agent: AgentProcess, apply: Apply) -> None:
    host_port = free_port()
    command = serving("mkdir /www; echo hello from the pod >/www/index.html; httpd -p 8080 -h /www")
    ports = [{"name": "http", "containerPort": 8080, "hostPort": host_port}]
    ready = {"httpGet": {"port": "http", "path": "/"}, "periodSeconds": 1}
    apply("ports", pod("ports", container(command=command, ports=ports, readinessProbe=ready)))
    seen = agent.wait_running("ports")[0]
    for address in ((seen.status.pod_ip, 8080), ("127.0.0.1", host_port), (seen.status.host_ip, host_port)):
        assert "hello from the pod" in _http_get(*address), f"not reached at {address}"


def _http_get(host: str, port: int) -> str:
    with socket.create_connection((host, port), timeout=20 * PATIENCE) as connection:
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        answer = b""
        while data := connection.recv(4096):
            answer += data
    return answer.decode()


def test_an_edit_replaces_the_pod_after_the_old_one_has_stopped(
    agent: AgentProcess, apply: Apply, tmp_path: Path
) -> None:
    def version(number: int) -> list[str]:
        begin, end = f"echo start {number} >>/out/log", f"echo stop {number} >>/out/log"
        return ["sh", "-c", f"trap 'sleep 0.5; {end}; exit 0' TERM; {begin}; while :; do sleep 3600 & wait $!; done"]

    volumes = [{"name": "out", "hostPath": {"path": str(tmp_path)}}]
    mounts = [mount("out", "/out")]
    apply("edit", pod("edit", container(command=version(1), volumeMounts=mounts), volumes=volumes))
    first = agent.wait_running("edit")[0]
    log = tmp_path / "log"
    wait_for(lambda: log.exists() and "start 1\n" in log.read_text(), 20, agent.log_tail)  # it heeds SIGTERM now
    apply("edit", pod("edit", container(command=version(2), volumeMounts=mounts), volumes=volumes))
    second = agent.wait_pod(
        "edit", lambda p: p.metadata.uid != first.metadata.uid and p.status.phase == "Running", timeout=15
    )
    wait_for(lambda: "start 2\n" in log.read_text(), 5, log.read_text)
    assert log.read_text().splitlines() == ["start 1", "stop 1", "start 2"]
    assert container_status(second).restart_count == 0


def test_a_removed_pod_leaves_nothing(agent: AgentProcess, daemon: PrivateRuntime, apply: Apply) -> None:
    agent.remove_all_pods()
    traces = NodeTraces(agent, daemon, of_runtime=True)
    host_port = free_port()
    volumes = [
        {"name": "disk", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
        {"name": "map", "configMap": {"name": "gone-map"}},
    ]
    mounts = [mount("disk", "/disk"), mount("memory", "/memory", subPath="below"), mount("map", "/map")]
    apply(
        "gone",
        config_map("gone-map", {"key": "value"}),
        pod(
            "gone",
            container(volumeMounts=mounts, ports=[{"containerPort": 80, "hostPort": host_port}]),
            initContainers=[container("first", command=["true"])],
            volumes=volumes,
        ),
    )
    seen = agent.wait_running("gone")[0]
    kinds = {kind.name for kind in traces.left()}
    places = {"PROCESS", "MOUNT", "NETNS", "CGROUP", "FILE", "DEVICE", "FIREWALL", "ADDRESS"}
    assert kinds == places, "the test looks at the wrong places"
    start = time.monotonic()
    (agent.manifests / "gone.json").unlink()
    agent.wait_gone("gone")
    assert time.monotonic() - start < 5 * PATIENCE
    assert not (agent.root / "pods" / seen.metadata.uid).exists()
    traces.assert_none_left()
    # As a word: the rules of other pods of the machine have ids of 64 hexadecimal digits.
    assert re.search(rf"\b{host_port}\b", _nat_rules()) is None


def _nat_rules() -> str:
    return subprocess.run(["iptables", "-w", "-t", "nat", "-S"], capture_output=True, text=True).stdout
