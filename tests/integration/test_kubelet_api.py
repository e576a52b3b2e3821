"""The kubelet API server over TLS on a real runtime, as used by curl and Prometheus with a client certificate."""

import asyncio
import http.client
import json
import ssl
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from pykubelet.kubelet.types.resources.stats import PodStats, Summary
from pykubelet.models import codec
from pykubelet.testing import wait
from pykubelet.testing.agent import AgentProcess, wait_for
from pykubelet.testing.certificates import Authority, IssuedCertificate
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.patience import PATIENCE
from tests.manifests import Json, container, pod, serving

pytestmark = [pytest.mark.runtime, pytest.mark.root]

POD = "web-testnode"
BUSY = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"


@pytest.fixture(scope="module")
def authority(isolation: Isolation) -> Authority:
    return Authority(isolation.home / "pki")


@pytest.fixture(scope="module")
def agent_config(authority: Authority) -> dict[str, object]:
    return {
        "enableServer": True,
        "authentication": {"x509": {"clientCAFile": str(authority.ca)}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "volumeStatsAggPeriod": "1s",
    }


@dataclass
class Client:
    """A client with an administrator's certificate, or without a certificate."""

    agent: AgentProcess
    issued: IssuedCertificate | None

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.agent.root / "pki" / "kubelet.crt"))
        context.check_hostname = False  # the certificate has the node's name and external address
        if self.issued is not None:
            context.load_cert_chain(self.issued.certificate, self.issued.key)
        return context

    def request(self, method: str, path: str) -> tuple[int, str]:
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.agent.node_port, context=self.context(), timeout=20 * PATIENCE
        )
        try:
            connection.request(method, path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def get(self, path: str) -> str:
        status, text = self.request("GET", path)
        assert status == 200, f"{path}: {status} {text}\n{self.agent.log_tail()}"
        return text

    def summary(self) -> PodStats:
        """The pod's entry in the stats summary."""
        found = codec.decode(self.get("/stats/summary"), Summary)
        return next(each for each in found.pods if each.pod_ref.name == POD)


@pytest.fixture(scope="module")
def client(agent: AgentProcess, authority: Authority) -> Iterator[Client]:
    limits = {"resources": {"limits": {"memory": "64Mi", "cpu": "1"}}}
    mounts: Json = {"volumeMounts": [{"name": "disk", "mountPath": "/disk"}, {"name": "ram", "mountPath": "/ram"}]}
    script = "echo first; echo second >&2; dd if=/dev/zero of=/disk/f bs=1M count=3 2>/dev/null; cp /disk/f /ram/f"
    volumes = [{"name": "disk", "emptyDir": {}}, {"name": "ram", "emptyDir": {"medium": "Memory"}}]
    agent.write("web.json", pod("web", container("main", serving(script), **limits, **mounts), volumes=volumes))
    agent.wait_running("web")
    yield Client(agent, authority.issue("admin", group="system:masters"))
    (agent.manifests / "web.json").unlink()
    agent.wait_gone("web")


def until(condition: Callable[[], object], timeout: float = 20.0) -> None:
    wait_for(lambda: bool(condition()), timeout, lambda: "it never was so")


def test_request_without_certificate_is_unauthorized(client: Client, agent: AgentProcess) -> None:
    unauthenticated = Client(agent, None)
    for path in ("/pods", "/healthz", f"/containerLogs/default/{POD}/main", "/nowhere"):
        assert unauthenticated.request("GET", path) == (401, "Unauthorized"), path


def test_curl_with_client_certificate_is_authorized(client: Client, agent: AgentProcess) -> None:
    assert client.issued is not None
    command = ["curl", "-sS", "--max-time", "20", "--cacert", str(agent.root / "pki" / "kubelet.crt")]
    command += ["--cert", str(client.issued.certificate), "--key", str(client.issued.key)]
    command += ["--resolve", f"{agent.node_name}:{agent.node_port}:127.0.0.1"]
    url = f"https://{agent.node_name}:{agent.node_port}/healthz"
    done = subprocess.run([*command, url], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "ok"), done.stderr


def test_pods_and_what_runs(client: Client) -> None:
    (wanted,) = json.loads(client.get("/pods"))["items"]
    assert (wanted["metadata"]["name"], wanted["status"]["phase"]) == (POD, "Running")
    (running,) = json.loads(client.get("/runningpods/"))["items"]
    assert running["metadata"] == {k: wanted["metadata"][k] for k in ("name", "namespace", "uid")}
    assert running["spec"]["containers"][0]["name"] == "main"


def test_logs_and_their_options(client: Client) -> None:
    path = f"/containerLogs/default/{POD}/main"
    until(lambda: "second" in client.get(path))
    assert sorted(client.get(path).split()) == ["first", "second"]
    assert client.get(f"{path}?stream=Stderr") == "second\n"
    assert client.get(f"{path}?limitBytes=3") in ("fir", "sec")
    assert client.get(f"{path}?sinceSeconds=86400&tailLines=1").count("\n") == 1
    stamped = client.get(f"{path}?timestamps=true&stream=Stdout")
    assert stamped.endswith(" first\n") and stamped[:2] == "20"


def test_run_gives_the_output(client: Client) -> None:
    assert client.request("POST", f"/run/default/{POD}/main?cmd=echo+hello") == (200, "hello\n")
    status, text = client.request("POST", f"/run/default/{POD}/main?cmd=cat+/nope")
    assert status == 500
    assert "exit code 1" in text and "/nope" in text


@pytest.mark.parametrize("protocol", ["v4.channel.k8s.io", "v5.channel.k8s.io"])
async def test_exec_over_websocket_carries_streams_and_exit_code(client: Client, protocol: str) -> None:
    command = "&".join(f"command={word}" for word in ("sh", "-c", "cat;echo+err>%262;exit+3"))
    url = f"https://127.0.0.1:{client.agent.node_port}/exec/default/{POD}/main?input=1&output=1&error=1&{command}"
    received: dict[int, bytes] = {}
    async with asyncio.timeout(20 * PATIENCE), aiohttp.ClientSession() as session:
        connection = session.ws_connect(url, ssl=client.context(), protocols=(protocol,))
        async with connection as socket:
            bare = socket.get_extra_info("socket")
            assert socket.protocol == protocol
            await socket.send_bytes(b"\x00hello\n")
            if protocol.startswith("v5"):
                await socket.send_bytes(b"\xff\x00")
            async for message in socket:
                channel = message.data[0]
                received[channel] = received.get(channel, b"") + message.data[1:]
                if protocol.startswith("v4") and b"hello" in received.get(1, b""):
                    break
    await wait.until(lambda: bare.fileno() < 0, 10)  # TLS sends close_notify after the session is closed
    assert received[1] == b"hello\n"
    if protocol.startswith("v5"):
        assert received[2] == b"err\n"
        assert json.loads(received[3])["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]


def test_flood_of_unauthorized_requests_uses_no_memory(client: Client, agent: AgentProcess) -> None:
    """CVE-2020-8551: unauthorized requests may cost time, but not memory."""
    unauthenticated = Client(agent, None)
    connection = http.client.HTTPSConnection(
        "127.0.0.1", agent.node_port, context=unauthenticated.context(), timeout=20 * PATIENCE
    )

    def flood(count: int) -> None:
        for number in range(count):
            connection.request("GET", f"/path-{number}", headers={"Authorization": f"Bearer token-{number}"})
            response = connection.getresponse()
            response.read()
            assert response.status == 401

    try:
        flood(500)
        before = _resident(agent.pid)
        flood(5000)
        assert _resident(agent.pid) - before < 12 << 20
    finally:
        connection.close()
    text = client.get("/metrics")
    assert "path-1" not in text and 'path="other"' in text


def _resident(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) * 1024


def test_usage_of_the_pod_is_what_it_uses(client: Client, agent: AgentProcess) -> None:
    until(lambda: client.summary().volume)
    before = client.summary()
    agent.exec("web", BUSY)
    until(lambda: _cpu_time(client.summary()) > _cpu_time(before) + 50_000_000, 30.0)
    now = client.summary()
    main = now.containers[0]
    for usage in (now, main):
        assert usage.cpu is not None and usage.memory is not None
        assert 3 << 20 <= (usage.memory.usage_bytes or 0) <= 64 << 20, "the file in memory counts"
        assert (usage.memory.available_bytes or 0) + (usage.memory.working_set_bytes or 0) == 64 << 20
        assert usage.cpu.usage_nano_cores is not None
    disk, ram = (next(v for v in now.volume if v.name == name) for name in ("disk", "ram"))
    for volume in (disk, ram):
        assert 3 << 20 <= (volume.used_bytes or 0) < 4 << 20
    assert now.ephemeral_storage is not None and (now.ephemeral_storage.used_bytes or 0) >= 3 << 20
    assert main.rootfs is not None and main.logs is not None and (main.logs.used_bytes or 0) > 0
    assert now.network is not None and now.network.name == "eth0"
    assert now.process_stats is not None and (now.process_stats.process_count or 0) >= 1


SCRATCH = {"plugin_name": "kubernetes.io/empty-dir"}


def _cpu_time(stats: PodStats) -> int:
    assert stats.cpu is not None and stats.cpu.usage_core_nano_seconds is not None
    return stats.cpu.usage_core_nano_seconds


@pytest.mark.parametrize(
    ("path", "series"),
    [
        (
            "/metrics",
            {
                "kubelet_running_pods": {},
                "kubelet_container_log_filesystem_used_bytes": {"pod": POD},
                "volume_manager_total_volumes": {**SCRATCH, "state": "actual_state_of_world"},
            },
        ),
        (
            "/metrics/cadvisor",
            {
                "container_cpu_usage_seconds": {"pod": POD, "container": "main", "cpu": "total"},
                "container_memory_working_set_bytes": {"pod": POD, "container": "main"},
                "container_spec_memory_limit_bytes": {"pod": POD, "container": "main"},
                "container_network_receive_bytes": {"pod": POD, "interface": "eth0"},
                "container_fs_usage_bytes": {"pod": POD, "container": "main"},
                "container_processes": {"pod": POD, "container": "main"},
                "container_start_time_seconds": {"pod": POD, "container": "main"},
                "machine_cpu_cores": {},
            },
        ),
        (
            "/metrics/resource",
            {
                "container_cpu_usage_seconds": {"pod": POD, "container": "main"},
                "pod_memory_working_set_bytes": {"pod": POD},
                "node_cpu_usage_seconds": {},
                "resource_scrape_error": {},
            },
        ),
        ("/metrics/probes", {}),
    ],
)
def test_prometheus_reads_every_page(client: Client, path: str, series: dict[str, dict[str, str]]) -> None:
    families = {family.name: family for family in text_string_to_metric_families(client.get(path))}
    for name, labels in series.items():
        values = [s.value for s in families[name].samples if labels.items() <= s.labels.items()]
        assert len(values) == 1, f"{name}{labels}: {values}"
    if path == "/metrics":
        reported = {sample.name for family in families.values() for sample in family.samples if sample.value > 0}
        assert reported >= {
            *("kubelet_cgroup_manager_duration_seconds_count", "kubelet_run_podsandbox_duration_seconds_count"),
            *("storage_operation_duration_seconds_count", "volume_operation_total_seconds_count"),
        }
    if path == "/metrics/cadvisor":
        limits = families["container_spec_memory_limit_bytes"].samples
        assert [s.value for s in limits if s.labels["container"] == "main"] == [64 << 20]


def test_configz_returns_effective_configuration(client: Client, agent: AgentProcess) -> None:
    shown: dict[str, Any] = json.loads(client.get("/configz"))["kubeletconfig"]
    assert (shown["port"], shown["enableServer"]) == (agent.node_port, True)
    assert shown["authorization"]["mode"] == "AlwaysAllow"


def test_top_matches_the_stats_summary(client: Client, agent: AgentProcess) -> None:
    done = agent.cli("top", "pods")
    assert done.returncode == 0, done.stderr
    (row,) = [line.split() for line in done.stdout.splitlines() if POD in line]
    assert row[2].endswith("m") and row[3].endswith("Mi")
    assert 3 <= int(row[3].removesuffix("Mi")) <= 64
    assert agent.node_name in agent.cli("top", "node").stdout


@pytest.mark.steady_clock  # a certificate that was made an hour or more ahead is not valid yet, and is made again
def test_self_signed_certificate_survives_restart(client: Client, agent: AgentProcess) -> None:
    before = (agent.root / "pki" / "kubelet.crt").read_bytes()
    agent.stop()
    agent.start()
    until(lambda: _answers(client), 20.0)
    assert (agent.root / "pki" / "kubelet.crt").read_bytes() == before
    assert Path(agent.root / "pki" / "kubelet.key").stat().st_mode & 0o077 == 0


def _answers(client: Client) -> bool:
    try:
        return client.request("GET", "/healthz")[0] == 200
    except OSError:
        return False
