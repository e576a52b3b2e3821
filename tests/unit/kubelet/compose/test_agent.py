"""The whole agent over a fake runtime and a fake API server: what the builders connect works together."""

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace

from pykubelet.base.clock import SystemClock
from pykubelet.base.daemon.notify import Notifier
from pykubelet.base.errors import Invalid
from pykubelet.kubelet.actuate.cgroups.qos_levels import QosLevels
from pykubelet.kubelet.actuate.volumes import SWAPPED_VOLUMES
from pykubelet.kubelet.compose.agent import Agent, build_agent
from pykubelet.kubelet.config import ClusterSettings, KubeletConfiguration, Settings
from pykubelet.kubelet.config.v1beta1 import (
    KubeletAuthentication,
    KubeletAuthorization,
    KubeletWebhookAuthentication,
)
from pykubelet.kubelet.main import run_agent
from pykubelet.testing.fake_api import FakeApi
from pykubelet.testing.fake_api.store import Place
from pykubelet.testing.fake_cri import FakeCri, serve
from pykubelet.testing.free_ports import free_port
from pykubelet.testing.wait import until, until_answer

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "containers": [{"name": "c", "image": "app:1", "imagePullPolicy": "IfNotPresent"}],
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
    },
}


@dataclass
class Rig:
    """One agent, its runtime and, in node mode, its API server."""

    settings: Settings
    cri: FakeCri
    agent: Agent
    api: FakeApi | None = None
    failures: list[str] = field(default_factory=list)

    async def local(self, path: str) -> Any:
        """Get a path of the local API."""
        connector = aiohttp.UnixConnector(str(self.settings.socket))
        async with aiohttp.ClientSession(connector=connector) as session, session.get(f"http://agent{path}") as reply:
            assert reply.status == 200, await reply.text()
            return await reply.json(content_type=None)

    async def text(self, path: str) -> str:
        """Get a path of the health server."""
        url = f"http://127.0.0.1:{self.settings.config.healthz_port}{path}"
        async with aiohttp.ClientSession() as session, session.get(url) as reply:
            assert reply.status == 200, await reply.text()
            return await reply.text()

    def stored(self, plural: str, namespace: str = "default", prefix: str = "/api/v1") -> list[Any]:
        """Return the API server's objects."""
        assert self.api is not None
        return self.api.store.list(Place(prefix, plural, namespace), lambda _: True)

    async def until_phase(self, phase: str, name: str) -> None:
        """Wait until the local API shows the pod in that phase."""

        async def reached() -> bool:
            if not self.settings.socket.exists():
                return False
            pods = (await self.local("/api/v1/pods"))["items"]
            return [p["status"]["phase"] for p in pods if p["metadata"]["name"] == name] == [phase]

        await until_answer(reached)


def settings_of(home: Path, endpoint: str, **fields: object) -> Settings:
    manifests = home / "manifests"
    manifests.mkdir()
    config = replace(
        KubeletConfiguration(),
        make_ip_tables_util_chains=False,  # the chain would be one of the machine
        static_pod_path=str(manifests),
        pod_logs_dir=str(home / "log"),
        healthz_port=free_port(),
        cgroups_per_qos=False,
        enforce_node_allocatable=("none",),
        fail_swap_on=False,
        **{"enable_server": False, **fields},
    )
    return Settings(
        "node-1",
        config,
        endpoint,
        root_dir=home / "root",
        run_dir=home / "run",
        container_log_dir=home / "links",
        node_ips=("127.0.0.1",),
    )


@asynccontextmanager
async def running(home: Path, *, api: FakeApi | None = None, **fields: Any) -> AsyncIterator[Rig]:
    """Run an agent; its core tasks end with the block, and none of them may fail before."""
    async with FakeCri(SystemClock()) as cri, serve(cri, home / "cri.sock") as endpoint:
        cri.add_image("app:1")
        settings = settings_of(home, endpoint, **fields)
        if api is not None:
            kubeconfig = home / "kubeconfig"
            cluster = {"name": "c", "cluster": {"server": api.config.server}}
            context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
            plain = {"clusters": [cluster], "contexts": [context], "users": [{"name": "u", "user": {}}]}
            kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **plain, "current-context": "x"}))
            settings = replace(settings, cluster=ClusterSettings(kubeconfig, cert_dir=home / "pki"))
        agent = build_agent(settings, SystemClock())
        rig = Rig(settings, cri, agent, api)
        (Path(settings.config.static_pod_path) / "web.json").write_text(json.dumps(POD))
        task = asyncio.create_task(
            run_agent(agent, settings, failed=lambda: rig.failures.append("failed"), notifier=Notifier(""))
        )
        try:
            yield rig
            assert not task.done() and rig.failures == []
        finally:
            task.cancel()
            await asyncio.wait([task])
            for close in reversed(agent.closers):
                await close()
        assert task.cancelled()


pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the agent creates directories of root")


async def test_standalone_agent_runs_a_manifest_and_serves_it(tmp_path: Path) -> None:
    async with running(tmp_path) as rig:
        await rig.until_phase("Running", "web-node-1")
        assert await rig.text("/healthz") == "ok"
        metrics = await rig.text("/metrics")
        assert 'kubelet_desired_pods{static="true"} 1.0' in metrics
        assert 'kubelet_runtime_operations_total{operation_type="create_container"} 1.0' in metrics
        reasons = {event["reason"] for event in (await rig.local("/api/v1/events"))["items"]}
        assert {"Starting", "Created", "Started"} <= reasons
        assert rig.agent.servers.kubelet_api is None
    assert len(rig.cri.calls("StartContainer")) == 1
    assert rig.cri.calls("StopContainer") == [], "pods keep running when the agent ends"


async def test_start_reports_a_resolver_configuration_over_the_limits(tmp_path: Path) -> None:
    file = tmp_path / "resolv.conf"
    file.write_text("search " + " ".join(f"d{number}.example" for number in range(33)))
    async with running(tmp_path, resolv_conf=str(file)) as rig:
        await rig.until_phase("Running", "web-node-1")
        events = (await rig.local("/api/v1/events"))["items"]
        (event,) = [each for each in events if each["reason"] == "CheckLimitsForResolvConf"]
        assert (event["type"], event["involvedObject"]["kind"]) == ("Warning", "Node")
        assert event["message"] == f"Resolv.conf file '{file}' contains search line consisting of more than 32 domains!"


async def test_start_reports_a_node_whose_limits_are_not_written_and_volumes_that_may_swap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start(levels: QosLevels) -> list[str]:
        levels.unenforced = 'Failed to update Node Allocatable Limits "/kubepods": busy'
        return []

    monkeypatch.setattr(
        "pykubelet.kubelet.compose.agent.memory_volumes_may_swap", lambda root: root == tmp_path / "root"
    )
    monkeypatch.setattr(QosLevels, "start", start)
    async with running(tmp_path) as rig:
        await rig.until_phase("Running", "web-node-1")
        rig.agent.start.actuators.resources.levels.retried(False, "still busy")
        rig.agent.start.actuators.resources.levels.retried(True, "done")
        events = (await rig.local("/api/v1/events"))["items"]
        reported = [(each["type"], each["reason"], each["message"]) for each in events]
        assert ("Warning", "PossibleMemoryBackedVolumesOnDisk", SWAPPED_VOLUMES) in reported
        failed = "FailedNodeAllocatableEnforcement"
        assert ("Warning", failed, 'Failed to update Node Allocatable Limits "/kubepods": busy') in reported
        assert ("Warning", failed, "still busy") in reported
        assert ("Normal", "NodeAllocatableEnforced", "done") in reported


async def test_standalone_agent_stops_a_pod_whose_manifest_is_removed(tmp_path: Path) -> None:
    async with running(tmp_path) as rig:
        await rig.until_phase("Running", "web-node-1")
        (tmp_path / "manifests" / "web.json").unlink()

        async def gone() -> bool:
            return not (await rig.local("/api/v1/pods"))["items"]

        await until_answer(gone)
    assert rig.cri.calls("RemovePodSandbox")


async def test_agent_in_node_mode_registers_and_reports_to_the_api_server(tmp_path: Path) -> None:
    async with FakeApi() as api, running(tmp_path, api=api) as rig:
        bound = {**POD["spec"], "nodeName": "node-1"}  # type: ignore[dict-item]  # a literal of this module
        api.store.create(Place("/api/v1", "pods", "default"), {"metadata": {"name": "bound"}, "spec": bound})
        await rig.until_phase("Running", "bound")
        await rig.until_phase("Running", "web-node-1")

        async def reported() -> bool:
            pods = {pod["metadata"]["name"]: pod.get("status", {}).get("phase") for pod in rig.stored("pods")}
            conditions = rig.stored("nodes", "")[0]["status"]["conditions"]
            true = {condition["type"] for condition in conditions if condition["status"] == "True"}
            return pods == {"bound": "Running", "web-node-1": "Running"} and true == {"Ready"}

        await until_answer(reported)
        (node,) = rig.stored("nodes", "")
        assert node["metadata"]["name"] == "node-1"
        status = node["status"]
        assert status["capacity"].keys() == status["allocatable"].keys() >= {"cpu", "memory", "pods"}
        assert any("/leases" in request for request in api.requests)
        assert "kubelet_mirror_pods 1.0" in await rig.text("/metrics")


async def test_agent_serves_the_kubelet_api_if_it_is_enabled(tmp_path: Path) -> None:
    access: dict[str, Any] = {
        "authentication": KubeletAuthentication(webhook=KubeletWebhookAuthentication(enabled=False)),
        "authorization": KubeletAuthorization(mode="AlwaysAllow"),
    }
    ports: dict[str, Any] = {"port": free_port(), "read_only_port": free_port()}
    async with running(tmp_path, enable_server=True, address="127.0.0.1", **ports, **access) as rig:
        await rig.until_phase("Running", "web-node-1")
        # The server may start later than the pod.
        await until(lambda: _listens(ports["read_only_port"]))
        url = f"http://127.0.0.1:{ports['read_only_port']}/pods"
        async with aiohttp.ClientSession() as session, session.get(url) as reply:
            assert [pod["metadata"]["name"] for pod in (await reply.json())["items"]] == ["web-node-1"]


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def test_invalid_threshold_is_rejected_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(Invalid):
        build_agent(settings_of(tmp_path, "unix:///none", eviction_hard={"memory.available": "x%"}), SystemClock())
